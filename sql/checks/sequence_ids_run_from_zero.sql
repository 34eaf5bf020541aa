-- Rows are stored split after split, and within a split sequence_id is 0, 1, 2, … Returns the rows where it is not.
-- A window without an order and a partition keeps no rows in memory. It sees the rows as they were stored.
with neighbours as (
    select split, sequence_id, lag(split) over () as split_before, lag(sequence_id) over () as id_before
    from shifted_sequences
)
select split, sequence_id
from neighbours
where split < split_before or sequence_id <> case when split = split_before then id_before + 1 else 0 end;
