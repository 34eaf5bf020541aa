-- Every stored id has its row in tokens. Returns the ids that have none.
with stored as (
    select distinct unnest(token_ids) as token_id
    from shifted_sequences
)
select stored.token_id
from stored
left join tokens on tokens.token_id = stored.token_id
where tokens.token_id is null
order by stored.token_id;
