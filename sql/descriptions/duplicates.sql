-- Grain: one row per split with sequences: how many of its rows and documents occur more than once.
-- Rows are compared by a 64-bit hash: among ten million rows a collision has probability 3e-6.
-- Of two million rows or documents and more, a random share is compared: those whose hash is a multiple of a number.
-- All copies of a text have the same hash. The counts of repetitions are then estimates for the whole.
with divisors as (
    select
        (select cast(greatest(1, count(*) // 1000000) as ubigint) from shifted_sequences) as of_rows,
        (select cast(greatest(1, count(*) // 1000000) as ubigint) from documents) as of_documents
),
row_copies as (
    select split, hash(token_ids) as content, count(*) as copies
    from shifted_sequences
    where hash(token_ids) % (select of_rows from divisors) = 0
    group by split, content
),
document_copies as (
    select split, hash(sha256) as content, count(*) as copies
    from documents
    where hash(sha256) % (select of_documents from divisors) = 0
    group by split, content
),
row_repetitions as (
    select split, sum(copies - 1) as repetitions
    from row_copies
    group by split
),
document_repetitions as (
    select split, sum(copies - 1) as repetitions
    from document_copies
    group by split
),
row_totals as (
    select split, count(*) as sequence_count
    from shifted_sequences
    group by split
),
document_totals as (
    select split, count(*) as document_count
    from documents
    group by split
)
select
    cast(row_totals.split as varchar) as split,
    cast(row_totals.sequence_count as bigint) as sequence_count,
    cast(coalesce(row_repetitions.repetitions, 0) * divisors.of_rows as bigint) as repeated_sequences,
    cast(document_totals.document_count as bigint) as document_count,
    cast(coalesce(document_repetitions.repetitions, 0) * divisors.of_documents as bigint) as repeated_documents
from row_totals
cross join divisors
inner join document_totals on document_totals.split = row_totals.split
left join row_repetitions on row_repetitions.split = row_totals.split
left join document_repetitions on document_repetitions.split = row_totals.split
order by row_totals.split;
