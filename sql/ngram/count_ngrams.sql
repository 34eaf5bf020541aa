-- Grain: one row: the number of n-grams of all orders.
select count(*)
from ngrams;
