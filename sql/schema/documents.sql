-- Grain: one row per document (a paragraph, at most 50 lines and about 8 KiB): its location, not its text.
create table documents (
    document_id bigint primary key,
    split split not null,
    source_file varchar not null, -- within the corpus folder
    source_number bigint not null, -- of its file, archive member or table row, within source_file
    byte_offset bigint not null,
    byte_count bigint not null, -- utf-8, line ends included
    line_count bigint not null,
    sha256 varchar not null,
    fingerprint varchar not null, -- sha256 of its letters: does not depend on cleaning
    split_key varchar not null, -- beginning of the digest that decides its split: its own or its source's
    predicted_tokens bigint not null,
    unknown_tokens bigint not null, -- words predicted as <unk>
    restoration_bits double not null -- to restore the text from its tokens: unknown words, white space
);
