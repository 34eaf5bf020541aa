-- For count_bins: kept documents as `scored`, dropped ones as `reference`. Grain: one row per value of bits_per_byte.
create temporary table shares as
select
    bits_per_byte as value,
    count(*) filter (where reason is null) as scored,
    count(*) filter (where reason is not null) as reference
from decisions
where bits_per_byte is not null
group by bits_per_byte;
