-- Grain: one row per token: the $count most frequent in the training split, with their share.
select token, training_count, training_count / sum(training_count) over () as share
from tokens
order by training_count desc, token_id
limit $count;
