-- Grain: one row per token that $split predicts: how often.
select token_id, count(*) as count
from (
    select unnest(target_ids) as token_id
    from shifted_sequences
    where split = $split
)
group by token_id
order by token_id;
