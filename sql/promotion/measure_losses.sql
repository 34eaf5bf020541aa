-- Grain: one row: the cost of all documents of the file $losses (Parquet, one row per document and role) by model.
with totals as (
    select
        count(*) filter (where role = 'candidate') as documents,
        sum(byte_count) filter (where role = 'candidate') as byte_count,
        fsum(total_nats) filter (where role = 'candidate') as candidate_nats,
        fsum(total_nats) filter (where role = 'champion') as champion_nats
    from read_parquet($losses)
)

select
    documents,
    byte_count,
    candidate_nats / byte_count as candidate_nats_per_byte,
    champion_nats / byte_count as champion_nats_per_byte,
    candidate_nats / byte_count - champion_nats / byte_count as difference
from totals;
