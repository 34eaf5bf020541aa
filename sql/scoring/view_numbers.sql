-- The numbers in the texts of scores: runs of digits with an optional decimal part that are no part of a hexadecimal
-- identifier. A field says what a number means by what stands around it: its place in its masked word, with the masked
-- word before it or after it. So sizes are compared with sizes, and durations with durations.
-- A number beyond those that a double holds counts as the largest one; the number of its digits is its logarithm.
-- Grain: one row per document, number and field; two fields per number.
create temporary view numbers as
with lines as (
    select document, string_split(text, ' ') as words, string_split(masked(text), ' ') as masks
    from scores
    where text is not null
),
words as (
    select
        document,
        unnest(range(1, len(words) + 1)) as place,
        unnest(words) as word,
        unnest(masks) as mask,
        unnest(list_concat([''], masks)) as before,
        unnest(list_concat(masks[2:], [''])) as after
    from lines
),
runs as (
    select
        document,
        place,
        unnest(regexp_extract_all(word, '(?i)[0-9a-f]*[0-9][0-9a-f]*(?:\.[0-9]+)?')) as number,
        unnest(range(length(word))) as run,
        before || ' ' || mask || ' ' as with_before,
        ' ' || mask || ' ' || after as with_after
    from words
    where mask <> word
)
select
    document,
    place,
    number,
    least(try_cast(number as double), 1.7976931348623157e308) as size,
    case
        when isinf(try_cast(number as double)) then length(ltrim(split_part(number, '.', 1), '0')) * ln(10)
        else ln(1 + try_cast(number as double))
    end as log_size,
    unnest([with_before || run, with_after || run]) as field
from runs
where regexp_full_match(number, '[0-9.]+');
