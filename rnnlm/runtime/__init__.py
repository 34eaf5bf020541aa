"""The environment in which code runs: engines for calls, child processes, optional packages, and the user."""
