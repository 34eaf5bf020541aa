-- Grain: one row: how this dataset's corpus was cut into sequences.
select mode, context_length, block_length
from dataset;
