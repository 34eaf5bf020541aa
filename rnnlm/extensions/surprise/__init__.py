"""Where a model is surprised: the loss of every token of a split, analysed in SQL.

token_loss_files writes the losses to Parquet files, surprise_measurement runs sql/surprise on them and keeps the tables
with a run, surprise_plots plots two of the tables.
"""

from rnnlm.extension_points import Extension

EXTENSION = Extension(measurements=("rnnlm.extensions.surprise.surprise_page:SURPRISE",))
