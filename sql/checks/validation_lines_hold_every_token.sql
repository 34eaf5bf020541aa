-- The lines of the validation split and its sequences agree on the number of predicted tokens. Returns both if not.
with held as (
    select coalesce(sum(predicted_tokens), 0) as token_count
    from validation_lines
),
predicted as (
    select coalesce(sum(len(target_ids)), 0) as token_count
    from shifted_sequences
    where split = 'valid'
)
select held.token_count as held, predicted.token_count as predicted
from held
cross join predicted
where held.token_count <> predicted.token_count;
