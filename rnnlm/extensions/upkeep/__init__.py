"""Upkeep of an rnnlm home: retention removes what is no longer needed, and a backup copies what must not be lost."""
