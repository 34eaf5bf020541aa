-- Grain: one row: the share of predicted tokens of $split that are not in the training text.
select avg(if(vocabulary.token_id is null, 1, 0)) as unknown_rate
from positions
left join vocabulary on vocabulary.token_id = positions.word
where positions.split = $split;
