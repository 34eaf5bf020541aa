-- If digests decide the splits, each split has the keys of a range of its own, so equal documents (or equal sources) are
-- in the same split. Given splits may repeat text. Returns the pairs of splits whose ranges overlap.
with ranges as (
    select split, min(split_key) as first_key, max(split_key) as last_key
    from documents
    where not (select splits_given from dataset limit 1)
    group by split
)
select ranges.split, other.split as overlaps
from ranges
inner join ranges as other
    on other.split > ranges.split and other.first_key <= ranges.last_key and ranges.first_key <= other.last_key
order by ranges.split, other.split;
