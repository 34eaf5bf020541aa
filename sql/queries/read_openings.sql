-- Grain: one row per opening: the first $tokens tokens of $count sequences, evenly spread over the validation split.
-- Only sequences that begin with <bos> (2) and two known tokens (<unk> is 1, <eos> 3).
with candidates as (
    select
        sequence_id,
        token_ids[2:$tokens + 1] as opening,
        row_number() over (order by sequence_id) - 1 as position,
        count(*) over () as candidate_count
    from shifted_sequences
    where
        split = 'valid'
        and token_ids[1] = 2
        and len(token_ids) >= 4
        and token_ids[2] > 3
        and token_ids[3] > 3
)
select opening
from candidates
where position % greatest(candidate_count // $count, 1) = 0
order by sequence_id
limit $count;
