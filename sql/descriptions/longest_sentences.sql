-- Grain: one row per line of a sentence-mode dataset: the $count longest of all splits. A row that does not begin with
-- <bos> (2) continues the line of the previous row.
with numbered as (
    select
        split,
        sequence_id,
        token_ids,
        sum(cast(token_ids[1] = 2 as bigint)) over (partition by split order by sequence_id) as line_number
    from shifted_sequences
),
lines as (
    select
        split,
        line_number,
        sum(len(token_ids) - 1) as predicted_tokens,
        arg_min(token_ids[2:13], sequence_id) as opening
    from numbered
    group by split, line_number
),
longest as (
    select split, line_number, predicted_tokens, opening
    from lines
    order by predicted_tokens desc, split, line_number
    limit $count
),
spelled as (
    select longest.split, longest.line_number, longest.predicted_tokens, place.place, tokens.token
    from longest
    cross join lateral (select unnest(range(1, len(longest.opening) + 1)) as place) as place
    inner join tokens on tokens.token_id = longest.opening[place.place]
)
select
    cast(split as varchar) as split,
    cast(predicted_tokens as bigint) as predicted_tokens,
    string_agg(token, ' ' order by place) as opening
from spelled
group by split, line_number, predicted_tokens
order by predicted_tokens desc, split, line_number;
