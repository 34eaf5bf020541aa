-- Grain: one row per vocabulary size (1, 2, 4, … and all): the share of the training split covered by that many most
-- frequent tokens.
with ranked as (
    select
        row_number() over (order by training_count desc, token_id) as vocabulary,
        sum(training_count) over (order by training_count desc, token_id) as covered,
        sum(training_count) over () as total,
        count(*) over () as last
    from tokens
    where training_count > 0
)
select vocabulary, cast(covered / total as double) as share
from ranked
where vocabulary = last or vocabulary = 1 << cast(floor(log2(vocabulary)) as integer)
order by vocabulary;
