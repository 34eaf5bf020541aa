-- Grain: one row per document: the $count kept ($kept) or dropped ones that are closest to the other side of the line, in
-- bits per byte. There is a line above the kept documents, and one below them if cheaper ones were dropped.
with kept as (
    select min(bits_per_byte) as lowest, max(bits_per_byte) as highest
    from decisions
    where reason is null
),
line as (
    select
        kept.highest,
        case
            when exists (from decisions where reason is not null and bits_per_byte < kept.lowest) then kept.lowest
        end as lowest
    from kept
),
closest as (
    select
        decisions.document,
        least(
            abs(decisions.bits_per_byte - line.highest), coalesce(abs(decisions.bits_per_byte - line.lowest), 'infinity')
        ) as distance
    from decisions
    cross join line
    where (decisions.reason is null) = $kept and decisions.bits_per_byte is not null
    order by distance, decisions.document
    limit $count
)
select scores.source, scores.place, scores.bits_per_byte, decisions.reason, scores.text
from closest
join decisions using (document)
join scores using (document)
order by scores.bits_per_byte, scores.document;
