-- Grain: one row per distinct fingerprint below $below, its first 16 hexadecimal digits, of a text that training has
-- seen: the documents of the training split, and the validation documents that overlap the predicted tokens $firsts[i] …
-- $lasts[i] - 1 of their split, on which the checkpoint and the temperature were chosen.
with held_out as (
    select
        fingerprint,
        predicted_tokens,
        sum(predicted_tokens) over (order by document_id) as last_token
    from documents
    where split = 'valid'
),
stretches as (
    select unnest($firsts) as first_token, unnest($lasts) as last_token
),
tuned as (
    select held_out.fingerprint
    from held_out
    inner join stretches
        on held_out.last_token > stretches.first_token
        and held_out.last_token - held_out.predicted_tokens < stretches.last_token
)

select left(fingerprint, 16) as sha256 from documents where split = 'train' and fingerprint < $below
union
select left(fingerprint, 16) as sha256 from tuned where fingerprint < $below
order by sha256;
