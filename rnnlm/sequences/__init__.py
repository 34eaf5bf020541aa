"""Sequences of a corpus's token ids, and batches of sequences.

split     train, valid or test
shard     a byte range of the corpus, which one process tokenizes into a few files
row       a stored sequence, which is a sentence, a part of a long sentence, or a block of a stream
stream    the continuous text of a split, stored as blocks that overlap by one token
part      a Parquet file with some rows of a large dataset
chunk     neighbouring rows that are read together
pool      chunks from the whole split whose rows are shuffled together
batch     the rows of one training step, or the windows of a stream at one step
lane      one of the equal segments into which a stream is divided for an epoch; all are read in parallel
window    the tokens of all lanes that one step reads
"""
