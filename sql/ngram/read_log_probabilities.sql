-- Grain: one row per predicted token of $split, in stored order; natural logarithms.
select sequence_id, position, log_probability
from log_probabilities
where split = $split
order by sequence_id, position;
