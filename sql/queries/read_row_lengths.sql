-- Grain: one row per sequence of $split, in stored order: the number of its predicted tokens.
select len(token_ids) - 1 as predicted_tokens
from shifted_sequences
where split = $split
order by sequence_id;
