-- Grain: one row a token that may be predicted.
create table vocabulary (
    token_id token_id not null,
    token varchar not null
);
