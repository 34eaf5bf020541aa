-- In a stream each block begins with the token that ends the block before. Returns the blocks that do not.
-- The first and last tokens are taken out first: joining whole blocks would hold the text in memory.
with block_ends as materialized (
    select split, sequence_id, token_ids[1] as first_token, token_ids[-1] as last_token
    from shifted_sequences
    where (select mode from dataset limit 1) = 'stream'
)
select block.split, block.sequence_id
from block_ends as block
inner join block_ends as previous
    on previous.split = block.split and previous.sequence_id = block.sequence_id - 1
where block.first_token <> previous.last_token
order by block.split, block.sequence_id;
