-- Documents and sequences agree on the number of predicted tokens. Returns the splits that differ.
with held as (
    select split, sum(predicted_tokens) as token_count
    from documents
    group by split
),
predicted as (
    select split, sum(len(target_ids)) as token_count
    from shifted_sequences
    group by split
)
select coalesce(held.split, predicted.split) as split, held.token_count as held, predicted.token_count as predicted
from held
full join predicted on predicted.split = held.split
where coalesce(held.token_count, 0) <> coalesce(predicted.token_count, 0)
order by split;
