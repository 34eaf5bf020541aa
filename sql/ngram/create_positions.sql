-- Grain: one row per predicted token of the running text, with the four tokens before it in its part (0: none).
create table positions (
    split varchar not null, -- train or test
    sequence_id bigint not null, -- 0: a part is one sequence
    position bigint not null, -- from 0
    c4 token_id not null,
    c3 token_id not null,
    c2 token_id not null,
    c1 token_id not null,
    word token_id not null
);
