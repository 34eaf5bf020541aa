-- A document has at most as many unknown words as predicted tokens, each of at least a byte.
-- Returns the documents of which this is not true.
select document_id
from documents
where unknown_tokens > predicted_tokens or unknown_bytes < unknown_tokens or unknown_bytes > byte_count
order by document_id;
