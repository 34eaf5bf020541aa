-- Grain: one row per document of the validation split: its first predicted token, counted over the split, and the one
-- after its last.
select
    document_id,
    cast(sum(predicted_tokens) over (order by document_id) - predicted_tokens as bigint) as first_token,
    cast(sum(predicted_tokens) over (order by document_id) as bigint) as last_token
from documents
where split = 'valid'
order by document_id;
