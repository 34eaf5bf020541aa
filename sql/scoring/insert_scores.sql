-- Adds the rows of the Parquet file $shard, in order.
insert into scores
select
    document, source, place, id, tokens, bytes, log_probability, perplexity, bits_per_byte, unknown_rate, surprising,
    text
from read_parquet($shard)
order by document;
