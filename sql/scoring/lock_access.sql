-- A query reads the opened database alone: no other file, no network, no extension.
set enable_external_access = false;
