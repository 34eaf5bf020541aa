-- Grain: one row: the quantiles $levels of the decided documents' bits per byte; null if none has any.
select quantile_disc(bits_per_byte, $levels::double[]) as ends
from decisions;
