-- Grain: one row per line of the validation split, in the corpus's order.
select digest, predicted_tokens
from validation_lines
order by line_id;
