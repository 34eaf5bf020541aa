-- Grain: one row per n-gram, of less than the highest order, at the beginning of a row of text: it has no token to its
-- left to count.
create temporary table openings (
    ngram_order utinyint not null,
    c4 token_id not null,
    c3 token_id not null,
    c2 token_id not null,
    c1 token_id not null,
    word token_id not null,
    after_bos boolean not null, -- false: the row goes on a sentence that was cut, or a stream
    count uinteger not null -- occurrences
);
