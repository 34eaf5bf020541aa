"""Where a model is surprised: the loss of every token of a split, analysed in SQL.

token_loss_files writes the losses to Parquet files, surprise_tables runs sql/surprise on them, surprise_plots plots two
of the tables, surprise_measurement does all of it once for a run.
"""
