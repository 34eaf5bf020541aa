-- Insert the Arrow table `incoming` (split, sequence_id, token_ids).
insert into shifted_sequences (split, sequence_id, token_ids)
select split, sequence_id, token_ids
from incoming
order by sequence_id;
