-- Grain: one row a line of a sentence-mode dataset: the $count longest over all splits. A row that does not begin with
-- <bos> (2) continues the line of the row before.
with row_lengths as materialized (
    select split, sequence_id, token_ids[1] = 2 as begins_line, len(token_ids) - 1 as predicted_tokens
    from shifted_sequences
),
numbered as (
    select
        split,
        sequence_id,
        predicted_tokens,
        sum(cast(begins_line as bigint)) over (partition by split order by sequence_id) as line_number
    from row_lengths
),
longest as (
    select split, line_number, sum(predicted_tokens) as predicted_tokens, min(sequence_id) as first_row
    from numbered
    group by split, line_number
    order by predicted_tokens desc, split, line_number
    limit $count
),
openings as (
    select longest.split, longest.line_number, longest.predicted_tokens, shifted_sequences.token_ids[2:13] as opening
    from longest
    inner join shifted_sequences
        on shifted_sequences.split = longest.split and shifted_sequences.sequence_id = longest.first_row
),
spelled as (
    select openings.split, openings.line_number, openings.predicted_tokens, place.place, tokens.token
    from openings
    cross join lateral (select unnest(range(1, len(openings.opening) + 1)) as place) as place
    inner join tokens on tokens.token_id = openings.opening[place.place]
)
select
    cast(split as varchar) as split,
    cast(predicted_tokens as bigint) as predicted_tokens,
    string_agg(token, ' ' order by place) as opening
from spelled
group by split, line_number, predicted_tokens
order by predicted_tokens desc, split, line_number;
