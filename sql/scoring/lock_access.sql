-- A query reads only the opened database and the files of allow_parts: no others, no network, no extensions.
set enable_external_access = false;
