-- Grain: one row a sequence of $split, in stored order.
select token_ids
from shifted_sequences
where split = $split
order by sequence_id;
