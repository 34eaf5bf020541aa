-- Grain: one row: the quantiles $levels of the bits per byte in the Parquet file $reference.
select quantile_disc(bits_per_byte, $levels::double[]) as thresholds
from read_parquet($reference);
