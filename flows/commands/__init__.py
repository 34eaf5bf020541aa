"""The commands of `rnnlm`, grouped by topic; each module adds its own to the parser.

A command is `command(options, home, print_result)`: it calls a flow or the library and prints one result, as text for
people or as JSON for programs. Heavy imports are inside the commands: `rnnlm --help` must not take seconds, and the
environment must be set before Prefect is imported.
"""
