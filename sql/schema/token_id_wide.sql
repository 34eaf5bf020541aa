-- Ids of a vocabulary of more than 65,536: four bytes.
create type token_id as uinteger;
