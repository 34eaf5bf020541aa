-- Grain: exactly one row: what this file was made from.
create table dataset (
    dataset_id varchar not null,
    corpus_digest varchar not null,
    tokenizer_digest varchar not null,
    mode varchar not null,
    context_length bigint not null,
    block_length bigint not null,
    vocabulary_size bigint not null,
    splits_given boolean not null, -- false: decided by digest
    highest_line_digest ubigint not null, -- larger digests are not in training_lines
    provenance json not null -- everything in dataset_id: settings, versions, stage
);
