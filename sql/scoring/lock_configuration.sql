-- What was set before a query cannot be unset by it.
set lock_configuration = true;
