-- Grain: one row: the raw size of $split and what of it the vocabulary cannot spell.
select
    cast(coalesce(sum(byte_count), 0) as bigint) as byte_count,
    cast(coalesce(sum(predicted_tokens), 0) as bigint) as predicted_tokens,
    cast(coalesce(sum(unknown_tokens), 0) as bigint) as unknown_tokens,
    cast(coalesce(sum(unknown_bytes), 0) as bigint) as unknown_bytes
from documents
where split = $split;
