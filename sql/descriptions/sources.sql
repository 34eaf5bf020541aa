-- Grain: one row per held-out split: how many of its documents share their source (file, archive member or table row)
-- with documents of the training split. A corpus of one file has one source.
with trained as (
    select distinct source_file, source_number
    from documents
    where split = 'train'
),
held_out as (
    select documents.split, trained.source_number is not null as shared
    from documents
    left join trained
        on trained.source_file = documents.source_file and trained.source_number = documents.source_number
    where documents.split <> 'train'
)
select
    cast(split as varchar) as split,
    cast(count(*) filter (where shared) as bigint) as shared_documents,
    cast(count(*) as bigint) as document_count
from held_out
group by split
order by split;
