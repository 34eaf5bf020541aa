-- Grain: one row: the losses of the file $tokens (tokens.parquet) together.
select
    count(*) as tokens,
    sum(nll_nats::double) as nll_nats,
    exp(least(700, avg(nll_nats::double))) as perplexity
from read_parquet($tokens);
