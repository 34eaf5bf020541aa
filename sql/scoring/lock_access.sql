-- A query reads only the opened database: no other files, no network, no extensions.
set enable_external_access = false;
