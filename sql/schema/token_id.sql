-- Token ids of a vocabulary of at most 65,536: two bytes.
create type token_id as usmallint;
