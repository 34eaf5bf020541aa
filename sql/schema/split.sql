-- The splits of a corpus. An enum, so that a misspelt split is an error.
create type split as enum ('train', 'valid', 'test');
