"""The surroundings of running code: engines for independent calls, child processes, optional packages, the user."""
