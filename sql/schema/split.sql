-- The parts of a corpus. One type, so that a misspelt split is an error.
create type split as enum ('train', 'valid', 'test');
