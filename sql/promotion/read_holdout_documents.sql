-- Grain: one row a text of the validation split that lies in none of the files $known_digests (Parquet, a column
-- sha256: of a text's letters, or of its bytes in files written before fingerprints were): where it stands in the
-- corpus for the first time. One text is one unit, however often it is repeated. Of more than $maximum texts, those
-- whose digest together with $seed is smallest: a random sample that stays much the same while the corpus grows.
with known as (
    select left(sha256, 16) as sha256 from read_parquet($known_digests) -- files of earlier releases hold all 64 digits
),
unseen as (
    select document_id, source_file, byte_offset, byte_count, sha256
    from documents
    where
        split = 'valid'
        and left(fingerprint, 16) not in (select sha256 from known)
        and left(sha256, 16) not in (select sha256 from known)
),
texts as (
    select
        min(document_id) as document_id,
        arg_min(source_file, document_id) as source_file,
        arg_min(byte_offset, document_id) as byte_offset,
        arg_min(byte_count, document_id) as byte_count,
        sha256
    from unseen
    group by sha256
    order by sha256(concat(sha256, $seed))
    limit $maximum
)

select document_id, source_file, byte_offset, byte_count, sha256
from texts
order by document_id;
