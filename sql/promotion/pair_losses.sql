-- Grain: one row per line of the file $losses (Parquet, one row per line and role), in the order of the corpus: by how
-- many nats the candidate costs more than the champion. If the list $only_lines is not null, only those of its digests.
select
    candidate.document_id,
    candidate.byte_count,
    candidate.total_nats - champion.total_nats as excess_nats
from read_parquet($losses) as candidate
inner join read_parquet($losses) as champion using (document_id, line)
where
    candidate.role = 'candidate'
    and champion.role = 'champion'
    and ($only_lines is null or candidate.digest in (select unnest(cast($only_lines as ubigint[]))))
order by candidate.document_id, candidate.line;
