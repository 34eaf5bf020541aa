"""Tables and text for terminal and pages, plots, and progress. Secrets are removed from all of them."""
