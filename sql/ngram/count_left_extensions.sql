-- Adds the n-grams of $ngram_order, each with its number of distinct tokens to the left: the number of n-grams of the
-- next order that end in it, plus one if it begins a cut row. N-grams that begin with <bos>, which has no token to its
-- left, are added with their number of occurrences.
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
