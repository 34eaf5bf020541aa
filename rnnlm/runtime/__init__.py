"""Where code runs: engines for independent calls, child processes, optional packages, the user."""
