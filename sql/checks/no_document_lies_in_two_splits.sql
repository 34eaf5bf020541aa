-- Where digests decide, equal documents (equal sources, where whole sources are decided) share a split. Given splits
-- are the corpus's own affair. Returns the digests that lie in more than one.
select split_key
from documents
where not (select splits_given from dataset limit 1)
group by split_key
having count(distinct split) > 1
order by split_key;
