"""The environment of the program: engines for calls, child processes, optional packages, and the user."""
