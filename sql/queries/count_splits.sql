-- Grain: one row per split with sequences (split, sequence_count, predicted_tokens).
select
    cast(split as varchar) as split,
    count(*) as sequence_count,
    cast(sum(len(target_ids)) as bigint) as predicted_tokens
from shifted_sequences
group by split
order by split;
