-- Grain: one row per predictable token.
create table vocabulary (
    token_id token_id not null,
    token varchar not null
);
