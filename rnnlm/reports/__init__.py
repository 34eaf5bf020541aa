"""What people read: markdown for the Prefect UI, tables and summaries for the terminal. One file a subject.

rnnlm/text_layout.py has what they share. Nothing is computed here: records come in, text goes out.
"""
