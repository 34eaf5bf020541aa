"""Find the text that surprises a model, by analysing the loss of every token of a split with SQL.

token_loss_files writes the losses to Parquet files. surprise_measurement runs the queries of sql/surprise on these
files and stores the resulting tables with a run. surprise_plots plots two of the tables.
"""

from rnnlm.extension_points import Extension

EXTENSION = Extension(measurements=("rnnlm.extensions.surprise.surprise_page:SURPRISE",))
