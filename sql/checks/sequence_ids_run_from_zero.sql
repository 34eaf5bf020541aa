-- Within a split sequence_id is 0, 1, 2, … Returns the splits where it is not.
select split
from shifted_sequences
group by split
having min(sequence_id) <> 0 or max(sequence_id) <> count(*) - 1 or count(distinct sequence_id) <> count(*)
order by split;
