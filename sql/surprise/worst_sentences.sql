-- Grain: one row a sentence of the file $sequences (sequences.parquet), the $count with the highest perplexity per
-- token, the worst first. One of fewer than $minimum_tokens is left out: a heading of one rare word would always win.
select sentence_id, tokens, nll_nats, perplexity, text
from read_parquet($sequences)
where tokens >= $minimum_tokens
order by perplexity desc, sentence_id
limit $count;
