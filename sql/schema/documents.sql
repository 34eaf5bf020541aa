-- Grain: one row a document (a paragraph, at most 50 lines and about 8 KiB): where it lies, not its text.
create table documents (
    document_id bigint primary key,
    split split not null,
    source_file varchar not null, -- within the corpus folder
    source_number bigint not null, -- of the file, archive member or table row that it is from, within source_file
    byte_offset bigint not null,
    byte_count bigint not null, -- utf-8, line ends included
    line_count bigint not null,
    sha256 varchar not null,
    fingerprint varchar not null, -- sha256 of the letters alone: the same however the text was cleaned
    split_key varchar not null, -- beginning of the digest that decides its split: its own, or its whole source's
    predicted_tokens bigint not null,
    unknown_tokens bigint not null, -- predicted as <unk> because the vocabulary cannot spell them
    restoration_bits double not null -- what restores the text from its tokens: unknown words, white space
);
