-- Grain: one row an id of the vocabulary.
create table tokens (
    token_id token_id primary key,
    token varchar not null,
    training_count bigint not null -- times it is predicted in the training split
);
