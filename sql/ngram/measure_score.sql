-- Grain: one row: how many tokens of $split are predicted, and their summed negative log-probability.
select count(*) as tokens, -kahan_sum(log_probability) as summed_nll_nats
from log_probabilities
where split = $split;
