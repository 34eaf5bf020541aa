-- Grain: one row per predicted token of $split, in stored order: natural logarithm, and tokens of the longest context
-- that the training text has. Kneser-Ney only.
select log_probability, context_length::utinyint as context_length
from log_probabilities
where split = $split
order by sequence_id, position;
