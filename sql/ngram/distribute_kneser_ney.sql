-- Grain: one row per predictable token, ordered by id: its probability after the context $c4 $c3 $c2 $c1 (0: none).
-- The interpolation written out: sum over orders of (count - D) / total, times the gammas of the orders above.
with wanted (ngram_order, c4, c3, c2, c1) as (
    values (1, 0, 0, 0, 0), (2, 0, 0, 0, $c1), (3, 0, 0, $c2, $c1), (4, 0, $c3, $c2, $c1), (5, $c4, $c3, $c2, $c1)
),
seen as (
    select x.ngram_order, x.c4, x.c3, x.c2, x.c1, x.total, x.gamma
    from contexts as x
    inner join wanted as w
        on w.ngram_order = x.ngram_order and w.c4 = x.c4 and w.c3 = x.c3 and w.c2 = x.c2 and w.c1 = x.c1
),
shares as (
    select
        ngram_order, c4, c3, c2, c1, total,
        coalesce(
            product(gamma) over (order by ngram_order desc rows between unbounded preceding and 1 preceding), 1
        ) as share
    from seen
),
counted as (
    select
        t.word,
        sum(s.share * (t.count - case t.count when 1 then d.d1 when 2 then d.d2 else d.d3 end) / s.total) as probability
    from ngrams as t
    inner join shares as s
        on s.ngram_order = t.ngram_order and s.c4 = t.c4 and s.c3 = t.c3 and s.c2 = t.c2 and s.c1 = t.c1
    inner join discounts as d on d.ngram_order = t.ngram_order
    group by t.word
),
uniform as (
    select (select product(gamma) from seen) / count(*) as probability
    from vocabulary
)
select v.token_id, v.token, coalesce(counted.probability, 0) + uniform.probability as probability
from vocabulary as v
cross join uniform
left join counted on counted.word = v.token_id
order by v.token_id;
