-- The $count strangest documents. A document is as strange as its bits per byte or one of its numbers is far above or
-- beyond what is usual, in median deviations. A number must be unusual in size and in order of magnitude. Documents that
-- are strange by numbers of one field, or by the wording of one template, share a place; the strangest one stands for all.
-- Grain: one row per place, the strangest first.
with usual as (
    select median(bits_per_byte) as bits_per_byte, greatest(mad(bits_per_byte), 0.01) as deviation
    from scores
),
number_deviations as (
    select
        numbers.document,
        {place: numbers.place, number: numbers.number, field: numbers.field, usual: usual_numbers.size} as found,
        least(
            abs(numbers.size - usual_numbers.size) / usual_numbers.deviation,
            abs(numbers.log_size - usual_numbers.log_size) / usual_numbers.log_deviation
        ) as deviations
    from numbers
    join usual_numbers using (field)
),
unusual_numbers as (
    select document, max(deviations) as deviations, arg_max(found, deviations) as found
    from number_deviations
    group by document
),
deviations as (
    select
        scores.document,
        scores.text,
        (scores.bits_per_byte - usual.bits_per_byte) / usual.deviation as by_wording,
        coalesce(unusual_numbers.deviations, 0) as by_number,
        unusual_numbers.found
    from scores
    cross join usual
    left join unusual_numbers using (document)
    where scores.tokens > 0
),
strange as (
    select
        document,
        text,
        greatest(by_wording, by_number) as deviations,
        case when by_number > by_wording then found end as number
    from deviations
    where greatest(by_wording, by_number) >= $least_deviations::double
),
places as (
    select
        arg_max(document, deviations) as document,
        max(deviations) as deviations,
        count(*) as documents
    from strange
    group by coalesce(number.field, masked(text))
    order by deviations desc, document
    limit $count::bigint
)
select
    scores.source,
    scores.place,
    scores.id,
    scores.bits_per_byte,
    places.deviations,
    places.documents,
    strange.number,
    scores.surprising,
    scores.text
from places
join strange using (document)
join scores using (document)
order by places.deviations desc, places.document;
