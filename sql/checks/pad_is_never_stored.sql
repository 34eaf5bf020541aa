-- <pad> (0) is only in batches, never stored. Returns the sequences that hold it.
select split, sequence_id
from shifted_sequences
where list_contains(token_ids, 0)
order by split, sequence_id;
