-- Grain: one row per sequence, as in schema/shifted_sequences, whose columns and shift these are; a test compares the two.
-- The rows are in Parquet parts beside this file: the lists of files are named, relative to the variable
-- dataset_folder or, without it, to the working directory. The names are listed so that a missing part is an error.
create view shifted_sequences as
with stored as (
    select cast('train' as split) as split, sequence_id, token_ids
    from read_parquet(
        list_transform($train_files, lambda name: coalesce(getvariable('dataset_folder') || '/', '') || name)
    )
    union all
    select cast('valid' as split) as split, sequence_id, token_ids
    from read_parquet(
        list_transform($valid_files, lambda name: coalesce(getvariable('dataset_folder') || '/', '') || name)
    )
    union all
    select cast('test' as split) as split, sequence_id, token_ids
    from read_parquet(
        list_transform($test_files, lambda name: coalesce(getvariable('dataset_folder') || '/', '') || name)
    )
)
select
    split,
    sequence_id,
    token_ids,
    token_ids[:-2] as input_ids,
    token_ids[2:] as target_ids
from stored;
