-- Adds one row per value of bits_per_byte in scores or in the Parquet file $reference. Nulls are skipped.
insert into shares
with documents as (
    select bits_per_byte as value, 1 as scored, 0 as reference
    from scores
    where bits_per_byte is not null
    union all
    select bits_per_byte, 0, 1
    from read_parquet($reference)
    where bits_per_byte is not null
),
steps as (
    select value, sum(scored) as scored, sum(reference) as reference
    from documents
    group by value
)
select
    value,
    scored,
    reference,
    sum(scored) over upwards / sum(scored) over (),
    sum(reference) over upwards / sum(reference) over ()
from steps
window upwards as (order by value rows between unbounded preceding and current row)
order by value;
