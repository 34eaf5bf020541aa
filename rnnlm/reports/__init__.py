"""Reports for the terminal and, in Markdown, for the Prefect UI, with one module for each subject.

Reports only format records. page.py formats reports that consist of facts, tables and plots; the other modules have a
Jinja template next to them.
"""
