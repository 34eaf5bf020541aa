-- Adds the words of the Arrow table `incoming` (token_id, token).
insert into vocabulary (token_id, token)
select token_id, token
from incoming
order by token_id;
