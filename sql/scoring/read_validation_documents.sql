-- Grain: one row per document of the validation split, in the order of the corpus: the location of its text.
select source_file, byte_offset, byte_count, line_count
from documents
where split = 'valid'
order by document_id;
