-- Grain: one row a line of a sentence-mode dataset: the $count longest over all splits. A row that does not begin with
-- <bos> (2) continues the line of the row before.
-- Windows without an order and a partition keep no rows in memory. They see the rows as they were stored: the rows of a
-- line follow each other.
with placed as (
    select
        split,
        sequence_id,
        token_ids[1] = 2 as begins_line,
        sum(len(token_ids) - 1) over (rows unbounded preceding) - (len(token_ids) - 1) as tokens_before
    from shifted_sequences
),
lines as (
    select split, sequence_id as first_row, tokens_before, lead(tokens_before) over () as tokens_before_next
    from placed
    where begins_line
),
longest as (
    select
        split,
        first_row,
        coalesce(tokens_before_next, (select sum(len(token_ids) - 1) from shifted_sequences))
        - tokens_before as predicted_tokens
    from lines
    order by predicted_tokens desc, split, first_row
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
