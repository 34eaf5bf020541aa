-- Grain: one row per word of the training part, ordered by id: its back-off score after the context $c4 $c3 $c2 $c1
-- (0: none), divided by the sum of all scores to make a distribution to draw from.
with wanted (ngram_order, c4, c3, c2, c1) as (
    values (2, 0, 0, 0, $c1), (3, 0, 0, $c2, $c1), (4, 0, $c3, $c2, $c1), (5, $c4, $c3, $c2, $c1)
),
seen as (
    select x.ngram_order, x.c4, x.c3, x.c2, x.c1, x.total
    from contexts as x
    inner join wanted as w
        on w.ngram_order = x.ngram_order and w.c4 = x.c4 and w.c3 = x.c3 and w.c2 = x.c2 and w.c1 = x.c1
),
continued as (
    select t.word, arg_max(t.count / s.total, t.ngram_order) as score
    from ngrams as t
    inner join seen as s
        on s.ngram_order = t.ngram_order and s.c4 = t.c4 and s.c3 = t.c3 and s.c2 = t.c2 and s.c1 = t.c1
    group by t.word
),
sizes as (
    select contexts.total + (select count(*) from vocabulary) as smoothed_total
    from contexts
    where contexts.ngram_order = 1
),
scores as (
    select v.token_id, v.token, coalesce(continued.score, (t.count + 1) / sizes.smoothed_total) as score
    from vocabulary as v
    cross join sizes
    inner join ngrams as t on t.ngram_order = 1 and t.word = v.token_id
    left join continued on continued.word = v.token_id
)
select token_id, token, score / (select sum(score) from scores) as probability
from scores
order by token_id;
