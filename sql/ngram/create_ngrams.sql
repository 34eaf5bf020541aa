-- Grain: one row per n-gram of an order. c1 is the token before the word, c4 the fourth before it; 0, which is never
-- a token of a text, beyond the order.
create table ngrams (
    ngram_order utinyint not null, -- 1 to 5: tokens, the word included
    c4 token_id not null,
    c3 token_id not null,
    c2 token_id not null,
    c1 token_id not null,
    word token_id not null,
    count uinteger not null -- what the method counts: occurrences, or distinct tokens to the left
);
