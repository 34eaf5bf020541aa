-- Every stored id is in tokens. Returns the ids that are not.
with stored as (
    select distinct unnest(token_ids) as token_id
    from shifted_sequences
)
select stored.token_id
from stored
left join tokens on tokens.token_id = stored.token_id
where tokens.token_id is null
order by stored.token_id;
