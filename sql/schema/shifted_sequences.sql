-- Grain: one row per sequence. Tokens are stored once; the shift by one is generated: inputs are all tokens but the
-- last, targets all but the first (slices count from 1, ends included). rnnlm/sequences/shift.py is the same in Python.
create table shifted_sequences (
    split split not null,
    sequence_id bigint not null, -- from 0 within its split, in the corpus's order
    token_ids token_id[] not null,
    input_ids token_id[] generated always as (token_ids[:-2]) virtual,
    target_ids token_id[] generated always as (token_ids[2:]) virtual
);
