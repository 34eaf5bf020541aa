"""Tables and text for terminal and pages, plots, progress; secrets are left out of all of them."""
