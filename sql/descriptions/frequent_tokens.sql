-- Grain: one row a token: the $count most frequent of the training split, with their share of it.
select token, training_count, training_count / sum(training_count) over () as share
from tokens
order by training_count desc, token_id
limit $count;
