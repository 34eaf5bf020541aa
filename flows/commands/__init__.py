"""The commands of `rnnlm`, grouped by topic. A function NAME_command implements the command NAME.

Each command calls a flow or the library and prints one result, as text for people or as JSON for programs. command.py
converts the parameters of a command's function to options, and the function's docstring to the help text.
flows/command_line.py lists all commands. Heavy imports are inside the functions. Hence `rnnlm --help` does not take
seconds, and the environment is set before Prefect is imported.
"""
