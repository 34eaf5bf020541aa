-- Every row has at least one target. Returns the rows that have none.
select split, sequence_id
from shifted_sequences
where coalesce(len(target_ids), 0) < 1
order by split, sequence_id;
