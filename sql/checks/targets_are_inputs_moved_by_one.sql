-- input[i + 1] = target[i]. Returns the sequences where the two columns disagree.
select split, sequence_id
from shifted_sequences
where input_ids[2:] is distinct from target_ids[:-2] or len(input_ids) <> len(target_ids)
order by split, sequence_id;
