-- Grain: one row per text of the validation split that is in none of the files $seen (Parquet; the column sha256 is of a
-- text's letters, or of its bytes in files written before fingerprints were), at its first place in the corpus. The
-- files are complete below $below, and no text above it is taken. One text is one unit, however often it is repeated. If
-- there are more than $maximum texts, those whose digest together with $seed is smallest: a random sample that stays
-- much the same while the corpus grows.
with held_out as (
    select min(document_id) as document_id, sha256, any_value(left(fingerprint, 16)) as fingerprint
    from documents
    where split = 'valid' and fingerprint < $below
    group by sha256
),
-- The files may be large: each of their digests is looked up among those of the validation split.
seen as (
    select left(sha256, 16) as digest -- files of earlier releases hold all 64 digits
    from read_parquet($seen, union_by_name = true)
    where
        not coalesce(is_line, false)
        and left(sha256, 16) in (
            select fingerprint from held_out
            union all
            select left(sha256, 16) from held_out
        )
),
chosen as (
    select document_id
    from held_out
    where fingerprint not in (select digest from seen) and left(sha256, 16) not in (select digest from seen)
    order by sha256(concat(sha256, $seed))
    limit $maximum
)
select document_id, source_file, byte_offset, byte_count, sha256
from documents
where document_id in (select document_id from chosen)
order by document_id;
