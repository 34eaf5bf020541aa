-- Grain: one row a document of the validation split, in the order of the corpus: where its text lies.
select source_file, byte_offset, byte_count, line_count
from documents
where split = 'valid'
order by document_id;
