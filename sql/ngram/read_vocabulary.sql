-- Grain: one row per predictable token.
select token_id
from vocabulary
order by token_id;
