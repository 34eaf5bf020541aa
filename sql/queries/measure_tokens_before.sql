-- Grain: one row: the predicted tokens of $split before its row $row.
select cast(coalesce(sum(len(token_ids) - 1), 0) as bigint) as tokens
from shifted_sequences
where split = $split and sequence_id < $row;
