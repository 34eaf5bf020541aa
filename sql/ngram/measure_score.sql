-- Grain: one row: how many tokens of $split are predicted, and exp of their mean negative log-probability.
select count(*) as tokens, exp(-kahan_sum(log_probability) / count(*)) as perplexity
from log_probabilities
where split = $split;
