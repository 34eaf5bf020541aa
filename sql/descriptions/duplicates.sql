-- Grain: one row per split with sequences: how many of its rows and documents occur more than once.
-- Rows are compared by a 64-bit hash: among ten million rows a collision has probability 3e-6.
with row_copies as (
    select split, hash(token_ids) as content, count(*) as copies
    from shifted_sequences
    group by split, content
),
document_copies as (
    select split, sha256, count(*) as copies
    from documents
    group by split, sha256
),
row_totals as (
    select split, sum(copies) as sequence_count, sum(copies - 1) as repeated_sequences
    from row_copies
    group by split
),
document_totals as (
    select split, sum(copies) as document_count, sum(copies - 1) as repeated_documents
    from document_copies
    group by split
)
select
    cast(row_totals.split as varchar) as split,
    cast(row_totals.sequence_count as bigint) as sequence_count,
    cast(row_totals.repeated_sequences as bigint) as repeated_sequences,
    cast(document_totals.document_count as bigint) as document_count,
    cast(document_totals.repeated_documents as bigint) as repeated_documents
from row_totals
inner join document_totals on document_totals.split = row_totals.split
order by row_totals.split;
