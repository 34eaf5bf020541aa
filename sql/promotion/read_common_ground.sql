-- Grain: one row a text of the validation split that lies in none of the files $training_digests (Parquet, a column
-- sha256): where it stands in the corpus for the first time. One text is one unit, however often it is repeated.
with unseen as (
    select document_id, source_file, byte_offset, byte_count, sha256
    from documents
    where
        split = 'valid'
        and sha256 not in (select sha256 from read_parquet($training_digests))
)

select
    min(document_id) as document_id,
    arg_min(source_file, document_id) as source_file,
    arg_min(byte_offset, document_id) as byte_offset,
    arg_min(byte_count, document_id) as byte_count,
    sha256
from unseen
group by sha256
order by document_id;
