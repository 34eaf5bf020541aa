-- Grain: one row per held-out split: the share of its predicted tokens in rows that the training split has too.
-- In stream mode, where rows are not units of text, documents are compared.
-- Of two million held-out units and more, a random share is compared: those whose hash is a multiple of a number. The
-- counts are then estimates for the whole.
-- Not materialized: the few held-out rows are read alone, and nothing is kept.
with units as not materialized (
    select split, hash(token_ids) as content, len(target_ids) as predicted_tokens
    from shifted_sequences
    where (select mode from dataset) = 'sentence'
    union all
    select split, hash(sha256) as content, predicted_tokens
    from documents
    where (select mode from dataset) = 'stream'
),
divisor as (
    select cast(greatest(1, count(*) // 1000000) as ubigint) as of_units
    from units
    where split <> 'train'
),
held_out as (
    select split, content, predicted_tokens
    from units
    where split <> 'train' and content % (select of_units from divisor) = 0
),
seen as (
    select distinct content
    from units
    where split = 'train' and content in (select content from held_out)
),
compared as (
    select held_out.split, held_out.predicted_tokens, seen.content is not null as leaked
    from held_out
    left join seen on seen.content = held_out.content
)
select
    cast(compared.split as varchar) as split,
    cast(count(*) filter (where compared.leaked) * any_value(divisor.of_units) as bigint) as leaked_units,
    cast(count(*) * any_value(divisor.of_units) as bigint) as unit_count,
    cast(
        coalesce(sum(compared.predicted_tokens) filter (where compared.leaked), 0)
        / greatest(sum(compared.predicted_tokens), 1) as double
    ) as leaked_share
from compared
cross join divisor
group by compared.split
order by split;
