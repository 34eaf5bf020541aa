-- <bos> (2) is never a target. Returns the sequences that predict it.
select split, sequence_id
from shifted_sequences
where list_contains(target_ids, 2)
order by split, sequence_id;
