-- Grain: one row per bin of the values of shares: $bins bins of width $width from $low on. The first and the last bin
-- include everything beyond them.
with bins as (
    select unnest(generate_series(0, $bins::bigint - 1)) as bin
),
placed as (
    select
        least(greatest(floor((value - $low::double) / $width::double), 0), $bins::bigint - 1)::bigint as bin,
        sum(scored) as scored,
        sum(reference) as reference
    from shares
    group by 1
)
select
    bins.bin,
    $low::double + bins.bin * $width::double as low,
    coalesce(placed.scored, 0)::bigint as scored,
    coalesce(placed.reference, 0)::bigint as reference
from bins
left join placed on placed.bin = bins.bin
order by bins.bin;
