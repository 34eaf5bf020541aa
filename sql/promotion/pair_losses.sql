-- Grain: one row per document of the file $losses (Parquet, one row per document and role), in the order of the corpus:
-- by how many nats the candidate costs more than the champion.
select
    candidate.byte_count,
    candidate.total_nats - champion.total_nats as excess_nats
from read_parquet($losses) as candidate
inner join read_parquet($losses) as champion using (document_id)
where candidate.role = 'candidate' and champion.role = 'champion'
order by candidate.document_id;
