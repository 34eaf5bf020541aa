-- Grain: one row per order whose discounts could not be estimated, in order.
select ngram_order
from discounts
where not estimated
order by ngram_order;
