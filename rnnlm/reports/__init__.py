"""Reports: markdown for the Prefect UI, tables and summaries for the terminal, one file per subject.

Nothing is computed here: records come in, text goes out. rnnlm/display/text_layout.py has the layout they share.
"""
