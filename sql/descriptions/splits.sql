-- Grain: one row per split with sequences: its size and its unknown words.
with rows as (
    select
        split,
        count(*) as sequence_count,
        sum(len(target_ids)) as predicted_tokens,
        max(len(target_ids)) as longest_row
    from shifted_sequences
    group by split
),
texts as (
    select
        split,
        count(*) as document_count,
        sum(line_count) as line_count,
        sum(byte_count) as byte_count,
        sum(unknown_tokens) as unknown_tokens
    from documents
    group by split
)
select
    cast(rows.split as varchar) as split,
    texts.document_count,
    cast(texts.line_count as bigint) as line_count,
    cast(texts.byte_count as bigint) as byte_count,
    rows.sequence_count,
    cast(rows.predicted_tokens as bigint) as predicted_tokens,
    cast(rows.predicted_tokens / rows.sequence_count as double) as mean_length,
    rows.longest_row,
    cast(texts.unknown_tokens / rows.predicted_tokens as double) as unknown_rate
from rows
inner join texts on texts.split = rows.split
order by rows.split;
