-- Grain: one row an order whose discounts the counts of counts could not give, in order.
select ngram_order
from discounts
where not estimated
order by ngram_order;
