-- Grain: one row per token: the $count least frequent in the training split.
select token, training_count, training_count / sum(training_count) over () as share
from tokens
where training_count > 0
order by training_count, token_id desc
limit $count;
