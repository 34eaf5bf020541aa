-- Adds the n-grams of $ngram_order in the training rows from $first_row on, with their number of occurrences.
-- A position too close to the beginning of its row for a whole context has no n-gram of this order.
insert into ngrams (ngram_order, c4, c3, c2, c1, word, count)
with masked as (
    select
        if($ngram_order >= 5, c4, 0) as c4,
        if($ngram_order >= 4, c3, 0) as c3,
        if($ngram_order >= 3, c2, 0) as c2,
        if($ngram_order >= 2, c1, 0) as c1,
        word
    from positions
    where split = 'train'
        and sequence_id >= $first_row
        and case $ngram_order when 5 then c4 when 4 then c3 when 3 then c2 when 2 then c1 else 1 end <> 0
)
select $ngram_order, c4, c3, c2, c1, word, count(*)
from masked
group by c4, c3, c2, c1, word;
