-- tokens.training_count is the count among training targets. Returns the ids where it is not.
with targets as (
    select unnest(target_ids) as token_id
    from shifted_sequences
    where split = 'train'
),
counts as (
    select token_id, count(*) as training_count
    from targets
    group by token_id
)
select tokens.token_id, tokens.training_count, coalesce(counts.training_count, 0) as counted
from tokens
left join counts on counts.token_id = tokens.token_id
where tokens.training_count <> coalesce(counts.training_count, 0)
order by tokens.token_id;
