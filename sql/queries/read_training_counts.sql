-- Grain: one row per token id, in order: how often the training split predicts it.
select training_count
from tokens
order by token_id;
