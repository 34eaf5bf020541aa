-- Grain: one row: which tokenizer cut the dataset, and of how many bytes of corpus.
select
    dataset.tokenizer_digest,
    (select sum(byte_count) from documents) as corpus_bytes
from dataset;
