-- Grain: one row per line of a sentence-mode dataset: the $count longest over all splits. A row that does not begin with
-- <bos> (2) continues the line of the row before.
-- Windows without an order and a partition keep no rows in memory. They see the rows as they were stored: the rows of a
-- line follow each other, and all but the last predict context_length tokens.
with placed as (
    select
        split,
        sequence_id,
        len(token_ids) - 1 as predicted_tokens,
        token_ids[1] = 2 as begins_line,
        coalesce(lead(token_ids[1] = 2) over (), true) as ends_line
    from shifted_sequences
),
bounds as (
    select
        split,
        sequence_id as last_row,
        predicted_tokens,
        ends_line,
        if(begins_line, sequence_id, lag(sequence_id) over ()) as first_row
    from placed
    where begins_line or ends_line
),
longest as (
    select
        bounds.split,
        bounds.first_row,
        (bounds.last_row - bounds.first_row) * dataset.context_length + bounds.predicted_tokens as predicted_tokens
    from bounds
    cross join dataset
    where bounds.ends_line
    order by predicted_tokens desc, bounds.split, bounds.first_row
    limit $count
),
openings as (
    select longest.split, longest.first_row, longest.predicted_tokens, shifted_sequences.token_ids[2:13] as opening
    from longest
    inner join shifted_sequences
        on shifted_sequences.split = longest.split and shifted_sequences.sequence_id = longest.first_row
),
spelled as (
    select openings.split, openings.first_row, openings.predicted_tokens, place.place, tokens.token
    from openings
    cross join lateral (select unnest(range(1, len(openings.opening) + 1)) as place) as place
    inner join tokens on tokens.token_id = openings.opening[place.place]
)
select
    cast(split as varchar) as split,
    cast(predicted_tokens as bigint) as predicted_tokens,
    string_agg(token, ' ' order by place) as opening
from spelled
group by split, first_row, predicted_tokens
order by predicted_tokens desc, split, first_row;
