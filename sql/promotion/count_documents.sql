-- Grain: one row: the number of documents of all splits.
select count(*) from documents;
