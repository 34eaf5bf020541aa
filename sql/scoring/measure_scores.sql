-- Grain: one row: all documents of scores together. Ratios of sums, not means of ratios.
select
    count(*) as documents,
    coalesce(sum(tokens), 0)::bigint as tokens,
    coalesce(sum(bytes), 0)::bigint as bytes,
    coalesce(sum(log_probability), 0) as log_probability,
    if(sum(tokens) > 0, exp(least(700, -sum(log_probability) / sum(tokens))), null) as perplexity,
    if(sum(tokens) > 0, sum(bits_per_byte * bytes) / sum(bytes), null) as bits_per_byte,
    if(sum(tokens) > 0, sum(unknown_rate * tokens) / sum(tokens), null) as unknown_rate
from scores;
