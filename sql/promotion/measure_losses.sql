-- Grain: one row: the cost of all lines of the file $losses (Parquet, one row per line and role) by model, or of those
-- whose digest is in the list $only_lines, if it is not null.
with totals as (
    select
        count(distinct document_id) as documents,
        count(*) filter (where role = 'candidate') as lines,
        sum(byte_count) filter (where role = 'candidate') as byte_count,
        fsum(total_nats) filter (where role = 'candidate') as candidate_nats,
        fsum(total_nats) filter (where role = 'champion') as champion_nats
    from read_parquet($losses)
    where $only_lines is null or digest in (select unnest(cast($only_lines as ubigint[])))
)

select
    documents,
    lines,
    byte_count,
    candidate_nats / byte_count as candidate_nats_per_byte,
    champion_nats / byte_count as champion_nats_per_byte,
    candidate_nats / byte_count - champion_nats / byte_count as difference
from totals;
