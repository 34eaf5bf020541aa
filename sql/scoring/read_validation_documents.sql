-- Grain: one row per document of the validation split, in the order of the corpus: the location of its text,
-- its digest and its number of lines.
select document_id, source_file, byte_offset, byte_count, sha256, line_count
from documents
where split = 'valid'
order by document_id;
