-- If digests decide the splits, equal documents (or equal sources) are in the same split; given splits may repeat text.
-- Returns the digests in more than one split.
select split_key
from documents
where not (select splits_given from dataset limit 1)
group by split_key
having count(distinct split) > 1
order by split_key;
