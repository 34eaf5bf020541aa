"""The environment in which code runs: engines for independent calls, child processes, optional packages, the user."""
