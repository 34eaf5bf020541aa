-- Adds the predictable tokens of the attached dataset: all but <pad> (0) and <bos> (2).
insert into vocabulary (token_id, token)
select token_id, token
from dataset.tokens
where token_id not in (0, 2)
order by token_id;
