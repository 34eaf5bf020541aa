"""Upkeep of an rnnlm home: retention removes items that are no longer needed, and a backup copies the others."""
