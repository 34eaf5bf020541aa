-- Grain: one row per bin: how many rows of the training split predict first_length to last_length tokens.
-- Parameter: $bins, the largest number of bins.
-- Not materialized: to read the lengths twice is faster than to keep them.
with lengths as not materialized (
    select len(target_ids) as length
    from shifted_sequences
    where split = 'train'
),
widths as (
    select greatest(1, cast(ceil(max(length) / $bins) as bigint)) as width
    from lengths
),
binned as (
    select (lengths.length - 1) // widths.width as bin, any_value(widths.width) as width, count(*) as sequence_count
    from lengths
    cross join widths
    group by bin
)
select bin * width + 1 as first_length, (bin + 1) * width as last_length, sequence_count
from binned
order by bin;
