-- A document has at most as many unknown words as predicted tokens, each of at least one byte (8 bits).
-- Returns the documents for which this is false.
select document_id
from documents
where unknown_tokens > predicted_tokens or restoration_bits < 8 * unknown_tokens
order by document_id;
