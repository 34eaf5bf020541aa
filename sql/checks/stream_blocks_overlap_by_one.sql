-- In stream mode each block begins with the last token of the previous one. Returns the blocks that do not.
with blocks as (
    select
        split, sequence_id, token_ids[1] as first_token,
        lag(token_ids[-1]) over (partition by split order by sequence_id) as token_before
    from shifted_sequences
    where (select mode from dataset limit 1) = 'stream'
)
select split, sequence_id
from blocks
where token_before is not null and first_token <> token_before
order by split, sequence_id;
