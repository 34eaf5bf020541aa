-- Insert the vocabulary from the Arrow table `incoming` (token_id, token), with counts of the training targets.
insert into tokens (token_id, token, training_count)
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
select incoming.token_id, incoming.token, coalesce(counts.training_count, 0)
from incoming
left join counts on counts.token_id = incoming.token_id
order by incoming.token_id;
