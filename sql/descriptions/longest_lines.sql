-- Grain: one row per line of a stream-mode dataset: the $count longest of all splits.
-- A line ends with <eos> (3). Token 0 of a split's stream is <bos>; target i of block b is token b * block_length + i.
-- Windows without an order and a partition keep no rows in memory. They see the blocks as they were stored.
with targets as (
    select
        shifted_sequences.split,
        shifted_sequences.sequence_id * dataset.block_length + generate_subscripts(target_ids, 1) as position,
        unnest(target_ids) as token_id
    from shifted_sequences
    cross join dataset
),
lines as (
    select
        split,
        position as line_end,
        position - if(split = lag(split) over (), lag(position) over (), 0) as predicted_tokens
    from targets
    where token_id = 3
),
longest as (
    select split, line_end, predicted_tokens
    from lines
    order by predicted_tokens desc, split, line_end
    limit $count
),
places as (
    select
        longest.split,
        longest.line_end,
        longest.predicted_tokens,
        unnest(range(1, least(12, longest.predicted_tokens) + 1)) as place
    from longest
),
-- Materialized: else the tokens are joined to every row of the dataset before the few places are looked up.
read as materialized (
    select
        places.split,
        places.line_end,
        places.predicted_tokens,
        places.place,
        shifted_sequences.target_ids[
            (places.line_end - places.predicted_tokens + places.place - 1) % dataset.block_length + 1
        ] as token_id
    from places
    cross join dataset
    inner join shifted_sequences
        on shifted_sequences.split = places.split
        and shifted_sequences.sequence_id
        = (places.line_end - places.predicted_tokens + places.place - 1) // dataset.block_length
),
spelled as (
    select read.split, read.line_end, read.predicted_tokens, read.place, tokens.token
    from read
    inner join tokens on tokens.token_id = read.token_id
)
select
    cast(split as varchar) as split,
    cast(predicted_tokens as bigint) as predicted_tokens,
    string_agg(token, ' ' order by place) as opening
from spelled
group by split, line_end, predicted_tokens
order by predicted_tokens desc, split, line_end;
