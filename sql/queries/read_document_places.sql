-- Grain: one row per document of $split: its first predicted token, counted over the split, and the one after its last;
-- its bytes, and the bits that restore its text from its tokens.
select
    document_id,
    cast(sum(predicted_tokens) over (order by document_id) - predicted_tokens as bigint) as first_token,
    cast(sum(predicted_tokens) over (order by document_id) as bigint) as last_token,
    byte_count,
    restoration_bits
from documents
where split = $split
order by document_id;
