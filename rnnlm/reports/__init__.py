"""Reports for the terminal and, in Markdown, for the Prefect UI; one file for each subject.

Nothing is computed here: records come in, text goes out. page.py renders reports of facts, tables and plots; the others
have a Jinja template beside their module.
"""
