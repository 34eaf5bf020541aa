-- A name in a query never stands for a variable of the Python program.
set python_enable_replacements = false;
