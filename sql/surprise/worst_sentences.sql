-- Grain: one row per sentence of the file $sequences (sequences.parquet): the $count with the highest perplexity per
-- token, the worst first, of those with at least $minimum_tokens: else a heading of one rare word would always win.
select sentence_id, tokens, nll_nats, perplexity, text
from read_parquet($sequences)
where tokens >= $minimum_tokens
order by perplexity desc, sentence_id
limit $count;
