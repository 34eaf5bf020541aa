-- Grain: one row per predicted token of positions: ln of the textbook's back-off score, not normalised over the words:
-- count(context, word) / total(context) of the highest order that has seen both, else (count(word) + 1) / (N + V).
create temporary view log_probabilities as
with sizes as (
    select contexts.total + (select count(*) from vocabulary) as smoothed_total -- N + V of the training part
    from contexts
    where contexts.ngram_order = 1
)
select
    p.split,
    p.sequence_id,
    p.position,
    ln(coalesce(
        t5.count / x5.total,
        t4.count / x4.total,
        t3.count / x3.total,
        t2.count / x2.total,
        (coalesce(t1.count, 0) + 1) / sizes.smoothed_total
    )) as log_probability
from positions as p
cross join sizes
left join ngrams as t1 on t1.ngram_order = 1 and t1.word = p.word
left join ngrams as t2 on t2.ngram_order = 2 and t2.c1 = p.c1 and t2.word = p.word
left join contexts as x2 on x2.ngram_order = 2 and x2.c1 = p.c1
left join ngrams as t3 on t3.ngram_order = 3 and t3.c2 = p.c2 and t3.c1 = p.c1 and t3.word = p.word
left join contexts as x3 on x3.ngram_order = 3 and x3.c2 = p.c2 and x3.c1 = p.c1
left join ngrams as t4
    on t4.ngram_order = 4 and t4.c3 = p.c3 and t4.c2 = p.c2 and t4.c1 = p.c1 and t4.word = p.word
left join contexts as x4 on x4.ngram_order = 4 and x4.c3 = p.c3 and x4.c2 = p.c2 and x4.c1 = p.c1
left join ngrams as t5
    on t5.ngram_order = 5 and t5.c4 = p.c4 and t5.c3 = p.c3 and t5.c2 = p.c2 and t5.c1 = p.c1 and t5.word = p.word
left join contexts as x5 on x5.ngram_order = 5 and x5.c4 = p.c4 and x5.c3 = p.c3 and x5.c2 = p.c2 and x5.c1 = p.c1;
