-- Grain: one row per bucket of tokens by how often the training split predicts them: never, then from each power of
-- four to just below the next.
with counted as (
    select
        if(training_count = 0, 0, 1 << (2 * floor(log2(training_count) / 2)::bigint)) as first_count,
        token_id,
        nll_nats::double as nats
    from read_parquet($tokens)
)
select
    first_count,
    if(first_count = 0, 0, 4 * first_count - 1) as last_count,
    count(distinct token_id) as types,
    count(*) as tokens,
    count(*) / sum(count(*)) over () as share_of_tokens,
    avg(nats) as nll_nats_per_token,
    coalesce(stddev_samp(nats), 0) / sqrt(count(*)) as standard_error,
    exp(least(700, avg(nats))) as perplexity,
    sum(nats) / sum(sum(nats)) over () as share_of_loss
from counted
group by first_count
order by first_count;
