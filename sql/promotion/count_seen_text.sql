-- Grain: one row: the documents of all splits, the listed lines of the training split, and the digest up to which they
-- are listed.
select
    (select count(*) from documents) as documents,
    (select count(distinct digest) from training_lines) as training_lines,
    highest_line_digest
from dataset;
