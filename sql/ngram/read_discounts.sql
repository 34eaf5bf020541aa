-- Grain: one row per order, from 1: the discounts of counts 1, 2, and 3 or more.
select d1, d2, d3
from discounts
order by ngram_order;
