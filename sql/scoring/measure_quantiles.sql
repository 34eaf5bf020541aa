-- Grain: one row per level: the lowest value of shares with at least that share of the documents at or below it.
with levels as (
    select unnest($levels::double[]) as level
)
select
    level,
    min(value) filter (where scored_share >= level) as scored,
    min(value) filter (where reference_share >= level) as reference
from levels
cross join shares
group by level
order by level;
