-- Grain: one row a text of the training split, its sha256; a text that stands there twice is one row.
select distinct sha256
from documents
where split = 'train'
order by sha256;
