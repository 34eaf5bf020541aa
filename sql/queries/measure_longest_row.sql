-- Grain: one row: the predicted tokens of the longest sequence of $split.
select coalesce(max(len(target_ids)), 0) as predicted_tokens
from shifted_sequences
where split = $split;
