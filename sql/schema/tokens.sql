-- Grain: one row per token id.
create table tokens (
    token_id token_id primary key,
    token varchar not null,
    training_count bigint not null -- how often the training split predicts it
);
