-- Grain: one row: predicted tokens of $split before row $row.
select cast(coalesce(sum(len(token_ids) - 1), 0) as bigint) as tokens
from shifted_sequences
where split = $split and sequence_id < $row;
