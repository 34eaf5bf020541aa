-- Grain: one row per bucket of positions in the sentence, from 0: the first ten singly, then tens up to 100, then
-- doubling. standard_error is that of the mean if tokens were independent: too small, but it shows thin buckets.
with placed as (
    select
        case
            when position < 10 then position
            when position < 100 then position - position % 10
            else 100 * (1 << floor(log2(position / 100))::bigint)
        end as first_position,
        position,
        nll_nats::double as nats
    from read_parquet($tokens)
)
select
    first_position,
    max(position) as last_position,
    count(*) as tokens,
    avg(nats) as nll_nats_per_token,
    coalesce(stddev_samp(nats), 0) / sqrt(count(*)) as standard_error,
    exp(least(700, avg(nats))) as perplexity,
    sum(nats) / sum(sum(nats)) over () as share_of_loss
from placed
group by first_position
order by first_position;
