-- Grain: one row: how the corpus was cut into sequences.
select mode, context_length, block_length
from dataset;
