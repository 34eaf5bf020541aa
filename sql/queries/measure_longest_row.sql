-- Grain: one row: predicted tokens of the longest sequence of $split, without an <eos> ($eos_id) at its end.
select coalesce(max(len(target_ids) - if(target_ids[-1] = $eos_id, 1, 0)), 0) as tokens
from shifted_sequences
where split = $split;
