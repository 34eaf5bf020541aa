-- Grain: one row: the tokenizer of the dataset and the size of its corpus.
select
    dataset.tokenizer_digest,
    (select sum(byte_count) from documents) as corpus_bytes
from dataset;
