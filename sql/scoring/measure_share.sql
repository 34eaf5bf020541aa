-- Grain: one row: the lowest bits per byte with at least $share of the documents of scores at or below it.
select quantile_disc(bits_per_byte, $share::double) as threshold
from scores;
