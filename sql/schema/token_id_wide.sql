-- Token ids of a larger vocabulary: four bytes.
create type token_id as uinteger;
