-- Grain: one row a document of $split, in the order of the corpus: where it lies.
select document_id, source_file, byte_offset, byte_count, sha256
from documents
where split = $split
order by document_id;
