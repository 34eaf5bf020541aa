-- Adds the n-grams of $ngram_order with the number of distinct tokens that stand to their left, which is the number
-- of n-grams of one order more that end in them; the beginning of a cut row is one more. Those after <bos>, which
-- nothing can stand before, are added with the number of times they occur.
insert into ngrams (ngram_order, c4, c3, c2, c1, word, count)
with extended as (
    select
        if($ngram_order >= 4, c3, 0) as c3,
        if($ngram_order >= 3, c2, 0) as c2,
        if($ngram_order >= 2, c1, 0) as c1,
        word
    from ngrams
    where ngram_order = $ngram_order + 1
    union all
    select c3, c2, c1, word
    from openings
    where ngram_order = $ngram_order and not after_bos
)
select $ngram_order, 0, c3, c2, c1, word, count(*)
from extended
group by c3, c2, c1, word
union all
select $ngram_order, c4, c3, c2, c1, word, count
from openings
where ngram_order = $ngram_order and after_bos;
