-- Grain: one row per place of <unk> (1) before the predicted token in its sentence: none of the two tokens before it,
-- the one just before, or only the one before that.
with neighbours as (
    select
        previous_token_id,
        lag(previous_token_id) over (partition by sentence_id order by position) as token_before_that,
        nll_nats::double as nats
    from read_parquet($tokens)
),
named as (
    select
        case when previous_token_id = 1 then 1 when token_before_that = 1 then 2 else 0 end as distance,
        nats
    from neighbours
)
select
    distance, -- in tokens to the nearest <unk>; 0: none within two
    count(*) as tokens,
    avg(nats) as nll_nats_per_token,
    exp(least(700, avg(nats))) as perplexity,
    sum(nats) / sum(sum(nats)) over () as share_of_loss
from named
group by distance
order by distance;
