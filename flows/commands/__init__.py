"""The commands of `rnnlm`, grouped by topic: the function NAME_command is the command NAME.

It calls a flow or the library and prints one result, as text for people or as JSON for programs. command.py turns its
parameters into options and its docstring into the help; flows/command_line.py lists all commands. Heavy imports are
inside the functions: `rnnlm --help` must not take seconds, and the environment must be set before Prefect is imported.
"""
