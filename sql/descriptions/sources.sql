-- Grain: one row per held-out split: how many of its documents share their source (file, archive member or table row)
-- with documents of the training split. A corpus of one file has one source.
-- Of two million held-out sources and more, a random share counts: those whose hash is a multiple of a number. The
-- counts are then estimates for the whole.
with divisor as (
    select cast(greatest(1, approx_count_distinct(hash(source_file, source_number)) // 1000000) as ubigint) as of_sources
    from documents
    where split <> 'train'
),
held_out as (
    select split, hash(source_file, source_number) as source
    from documents
    where split <> 'train' and hash(source_file, source_number) % (select of_sources from divisor) = 0
),
trained as (
    select distinct hash(source_file, source_number) as source
    from documents
    where split = 'train' and hash(source_file, source_number) in (select source from held_out)
),
compared as (
    select held_out.split, trained.source is not null as shared
    from held_out
    left join trained on trained.source = held_out.source
)
select
    cast(compared.split as varchar) as split,
    cast(count(*) filter (where compared.shared) * any_value(divisor.of_sources) as bigint) as shared_documents,
    cast(count(*) * any_value(divisor.of_sources) as bigint) as document_count
from compared
cross join divisor
group by compared.split
order by split;
