"""The commands of `rnnlm`, a group of them a file; each file adds its own to the parser. No flow lives here.

A command is `command(options, home, say)`: it calls a flow or the library and says the result once, as text
for people and as a value for programs. Heavy imports wait inside it.
"""
