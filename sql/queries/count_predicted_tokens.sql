-- Grain: one row a split that holds any (split, predicted_tokens).
select cast(split as varchar) as split, cast(sum(len(target_ids)) as bigint) as predicted_tokens
from shifted_sequences
group by split
order by split;
