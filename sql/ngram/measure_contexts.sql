-- Adds the contexts of $ngram_order: the sum of counts, and the share that the discounts leave to the next lower order
-- (null without discounts).
insert into contexts (ngram_order, c4, c3, c2, c1, total, gamma)
with sums as (
    select
        c4, c3, c2, c1,
        sum(count) as total,
        count(*) filter (where count = 1) as n1,
        count(*) filter (where count = 2) as n2,
        count(*) filter (where count >= 3) as n3
    from ngrams
    where ngram_order = $ngram_order
    group by c4, c3, c2, c1
)
select
    $ngram_order, sums.c4, sums.c3, sums.c2, sums.c1, sums.total,
    (discounts.d1 * sums.n1 + discounts.d2 * sums.n2 + discounts.d3 * sums.n3) / sums.total
from sums
left join discounts on discounts.ngram_order = $ngram_order;
