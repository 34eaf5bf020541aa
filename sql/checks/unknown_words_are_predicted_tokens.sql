-- A document has at most as many unknown words as predicted tokens, each of at least a byte, 8 bits.
-- Returns the documents of which this is not true.
select document_id
from documents
where unknown_tokens > predicted_tokens or restoration_bits < 8 * unknown_tokens
order by document_id;
