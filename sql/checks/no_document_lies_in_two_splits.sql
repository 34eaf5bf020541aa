-- Where digests decide, equal documents share a split. Given splits are the corpus's own affair.
-- Returns the digests that lie in more than one.
select sha256
from documents
where not (select splits_given from dataset limit 1)
group by sha256
having count(distinct split) > 1
order by sha256;
