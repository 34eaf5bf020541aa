"""Tables and text for the terminal and for pages, plots, and progress bars. Secrets are redacted in all output."""
