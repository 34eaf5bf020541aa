-- No name in a query stands for a variable of the Python program.
set python_enable_replacements = false;
