"""The commands of `rnnlm`, grouped by topic. A function NAME_command implements the command NAME.

Each command calls a flow or the library and prints one result, as text for people or as JSON for programs. command.py
turns the parameters of a command's function into options, and the function's docstring into the help text.
flows/command_line.py lists all commands. Heavy imports are inside the functions, so that `rnnlm --help` does not take
seconds, and so that the environment is set before Prefect is imported.
"""
