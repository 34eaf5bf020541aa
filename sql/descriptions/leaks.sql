-- Grain: one row per held-out split: the share of its predicted tokens in rows that the training split has too.
-- In stream mode, where rows are not units of text, documents are compared.
with units as (
    select split, hash(token_ids) as content, len(target_ids) as predicted_tokens
    from shifted_sequences
    where (select mode from dataset) = 'sentence'
    union all
    select split, hash(sha256) as content, predicted_tokens
    from documents
    where (select mode from dataset) = 'stream'
),
seen as (
    select distinct content
    from units
    where split = 'train'
),
held_out as (
    select units.split, units.predicted_tokens, seen.content is not null as leaked
    from units
    left join seen on seen.content = units.content
    where units.split <> 'train'
)
select
    cast(split as varchar) as split,
    cast(count(*) filter (where leaked) as bigint) as leaked_units,
    cast(count(*) as bigint) as unit_count,
    cast(coalesce(sum(predicted_tokens) filter (where leaked), 0) / greatest(sum(predicted_tokens), 1) as double)
        as leaked_share
from held_out
group by split
order by split;
