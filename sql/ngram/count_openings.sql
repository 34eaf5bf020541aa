-- Adds the n-grams of orders 2 to $ngram_order - 1 at the beginning of a training row from $first_row on.
insert into openings (ngram_order, c4, c3, c2, c1, word, after_bos, count)
with heads as (
    select token_ids[:$ngram_order - 1] as token_ids
    from dataset.shifted_sequences
    where split = 'train' and sequence_id >= $first_row
),
begun as (
    select
        unnest(range(2, len(token_ids) + 1)) as ngram_order,
        token_ids[1] = 2 as after_bos,
        0 as c4,
        unnest(([0, 0] || token_ids)[:-4]) as c3,
        unnest(([0] || token_ids)[:-3]) as c2,
        unnest(token_ids[:-2]) as c1,
        unnest(token_ids[2:]) as word
    from heads
)
select ngram_order, c4, c3, c2, c1, word, after_bos, count(*)
from begun
group by ngram_order, c4, c3, c2, c1, word, after_bos;
