-- A query cannot change the settings made before it.
set lock_configuration = true;
