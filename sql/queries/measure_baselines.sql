-- Grain: one row: how many tokens are predictable, and the mean loss of $split under the unigram distribution.
-- Predictable is every token but <pad> (0) and <bos> (2). Unigram: the share in the training split; a token
-- never seen there counts as seen once, so that the shares sum to 1 and none is zero.
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
    (select count(*) from predictable) as predictable_tokens,
    -avg(unigram.log_probability) as unigram_nll_nats_per_token
from targets
inner join unigram on unigram.token_id = targets.token_id;
