-- Grain: one row: below `upper` lies the share $confidence of the table resamples (a row a resample), above `lower` too.
select
    quantile_cont(difference, 1 - $confidence) as lower,
    quantile_cont(difference, $confidence) as upper
from resamples;
