-- In a stream each block begins with the token that ends the block before. Returns the blocks that do not.
-- A window without an order and a partition keeps no rows in memory. It sees the rows as they were stored.
with neighbours as (
    select split, sequence_id, token_ids[1] as first_token, lag(token_ids[-1]) over () as last_token_before
    from shifted_sequences
    where (select mode from dataset limit 1) = 'stream'
)
select split, sequence_id
from neighbours
where sequence_id > 0 and first_token <> last_token_before;
