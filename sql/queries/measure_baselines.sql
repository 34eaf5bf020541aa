-- Grain: one row: perplexity of $split under the uniform and the unigram distribution.
-- Predictable: every token except <pad> (0) and <bos> (2). Unigram: the share in the training split, where an unseen
-- token counts once, so that the shares sum to 1 and none is zero.
with predictable as (
    select token_id, greatest(training_count, 1) as weight
    from tokens
    where token_id not in (0, 2)
),
unigram as (
    select token_id, ln(weight / sum(weight) over ()) as log_probability
    from predictable
),
targets as (
    select unnest(target_ids) as token_id
    from shifted_sequences
    where split = $split
)
select
    cast((select count(*) from predictable) as double) as uniform_perplexity,
    exp(-avg(unigram.log_probability)) as unigram_perplexity
from targets
inner join unigram on unigram.token_id = targets.token_id;
