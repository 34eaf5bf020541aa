-- Grain: one row per context and order; order 1 has the empty context.
create table contexts (
    ngram_order utinyint not null, -- of the n-grams that continue it
    c4 token_id not null,
    c3 token_id not null,
    c2 token_id not null,
    c1 token_id not null,
    total ubigint not null, -- sum of their counts
    gamma double -- share of the order below, what the discounts took; null where the method has none
);
