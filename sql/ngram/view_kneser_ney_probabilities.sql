-- Grain: one row per predicted token of positions: ln p(word | context), interpolated from the uniform distribution
-- upwards: p_k = max(count - D, 0) / total + gamma p_{k-1}. For an unseen context p_k = p_{k-1}.
create temporary view log_probabilities as
with orders as (
    select list([d1, d2, d3] order by ngram_order) as d -- d[order][min(count, 3)]
    from discounts
),
uniform as (
    select 1 / count(*) as p0
    from vocabulary
),
order_1 as (
    select
        positions.*,
        coalesce((t.count - d[1][least(t.count, 3)]) / x.total, 0) + coalesce(x.gamma, 1) * p0 as p1
    from positions
    cross join uniform
    cross join orders
    left join ngrams as t on t.ngram_order = 1 and t.word = positions.word
    left join contexts as x on x.ngram_order = 1
),
order_2 as (
    select
        p.*,
        coalesce((t.count - d[2][least(t.count, 3)]) / x.total, 0) + coalesce(x.gamma, 1) * p1 as p2
    from order_1 as p
    cross join orders
    left join ngrams as t on t.ngram_order = 2 and t.c1 = p.c1 and t.word = p.word
    left join contexts as x on x.ngram_order = 2 and x.c1 = p.c1
),
order_3 as (
    select
        p.*,
        coalesce((t.count - d[3][least(t.count, 3)]) / x.total, 0) + coalesce(x.gamma, 1) * p2 as p3
    from order_2 as p
    cross join orders
    left join ngrams as t on t.ngram_order = 3 and t.c2 = p.c2 and t.c1 = p.c1 and t.word = p.word
    left join contexts as x on x.ngram_order = 3 and x.c2 = p.c2 and x.c1 = p.c1
),
order_4 as (
    select
        p.*,
        coalesce((t.count - d[4][least(t.count, 3)]) / x.total, 0) + coalesce(x.gamma, 1) * p3 as p4
    from order_3 as p
    cross join orders
    left join ngrams as t on t.ngram_order = 4 and t.c3 = p.c3 and t.c2 = p.c2 and t.c1 = p.c1 and t.word = p.word
    left join contexts as x on x.ngram_order = 4 and x.c3 = p.c3 and x.c2 = p.c2 and x.c1 = p.c1
),
order_5 as (
    select
        p.*,
        coalesce((t.count - d[5][least(t.count, 3)]) / x.total, 0) + coalesce(x.gamma, 1) * p4 as p5
    from order_4 as p
    cross join orders
    left join ngrams as t
        on t.ngram_order = 5 and t.c4 = p.c4 and t.c3 = p.c3 and t.c2 = p.c2 and t.c1 = p.c1 and t.word = p.word
    left join contexts as x on x.ngram_order = 5 and x.c4 = p.c4 and x.c3 = p.c3 and x.c2 = p.c2 and x.c1 = p.c1
)
select split, sequence_id, position, ln(p5) as log_probability
from order_5;
