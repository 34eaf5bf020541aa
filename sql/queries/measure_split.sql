-- Grain: one row: size of $split and what its tokens lose.
select
    cast(coalesce(sum(byte_count), 0) as bigint) as byte_count,
    cast(coalesce(sum(predicted_tokens), 0) as bigint) as predicted_tokens,
    cast(coalesce(sum(unknown_tokens), 0) as bigint) as unknown_tokens,
    coalesce(fsum(restoration_bits), 0.0) as restoration_bits
from documents
where split = $split;
