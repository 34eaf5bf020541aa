-- Grain: one row a level: the lowest value of shares at or below which so large a share of the documents lies.
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
