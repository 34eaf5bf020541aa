-- Grain: one row a document (a paragraph, at most 50 lines): where it lies, not its text.
create table documents (
    document_id bigint primary key,
    split split not null,
    source_file varchar not null, -- within the corpus folder
    byte_offset bigint not null,
    byte_count bigint not null, -- utf-8, line ends included
    line_count bigint not null,
    sha256 varchar not null,
    predicted_tokens bigint not null,
    unknown_tokens bigint not null, -- predicted as <unk> because the vocabulary cannot spell them
    unknown_bytes bigint not null -- utf-8 bytes of those words
);
