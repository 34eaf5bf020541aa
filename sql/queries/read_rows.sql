-- Grain: one row per sequence of $split with $first <= sequence_id < $last, in stored order.
select token_ids
from shifted_sequences
where split = $split and sequence_id >= $first and sequence_id < $last
order by sequence_id;
