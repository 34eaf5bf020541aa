-- Grain: one row an id, in order of id: how often it is predicted in the training split.
select training_count
from tokens
order by token_id;
