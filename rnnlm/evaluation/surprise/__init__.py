"""Where a model is surprised: the loss of every token of a split beside the run, and what SQL makes of it.

writing puts the losses into Parquet files, tables asks them the questions of sql/surprise, pictures draws two of the
answers, measuring does all this once for a run.
"""
