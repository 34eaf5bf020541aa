-- Grain: one row per order: the Kneser-Ney discounts of counts 1, 2, and 3 or more.
create table discounts (
    ngram_order utinyint not null,
    n1 ubigint not null, -- n-grams that were counted once
    n2 ubigint not null,
    n3 ubigint not null,
    n4 ubigint not null,
    d1 double not null,
    d2 double not null,
    d3 double not null,
    estimated boolean not null -- false: the counts of counts give none, and these are fixed ones
);
