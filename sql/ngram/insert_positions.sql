-- Adds the rows of the Arrow table `incoming` (position, c4, c3, c2, c1, word) to $split.
insert into positions (split, sequence_id, position, c4, c3, c2, c1, word)
select $split, 0, position, c4, c3, c2, c1, word
from incoming;
