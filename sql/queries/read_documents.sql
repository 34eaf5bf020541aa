-- Grain: one row per document of $split, in corpus order: its location.
select document_id, source_file, byte_offset, byte_count, sha256
from documents
where split = $split
order by document_id;
