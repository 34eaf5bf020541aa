-- The usual size of the numbers of each field, from about $sampled documents spread evenly: medians and median
-- deviations, of the sizes and of their logarithms. A field whose numbers are nearly all equal gets a least deviation.
-- Grain: one row per field with 50 numbers or more.
create temporary table usual_numbers as
with sample as (
    select numbers.field, numbers.size, numbers.log_size
    from numbers
    where numbers.document % greatest(1, (select count(*) from scores) // $sampled::bigint) = 0
)
select
    field,
    median(size) as size,
    greatest(mad(size), 0.05 * median(size), 0.5) as deviation,
    median(log_size) as log_size,
    greatest(mad(log_size), 0.1) as log_deviation
from sample
group by field
having count(*) >= 50;
