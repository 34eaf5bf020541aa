"""A corpus as sequences of token ids, and batches of them.

split     train, valid or test
shard     a byte range of the corpus, which one process tokenizes into a few files
row       a stored sequence: a sentence, a piece of a long one, or a block of a stream
stream    the running text of a split, stored as blocks that overlap by one token
part      a Parquet file with rows of a large dataset
chunk     neighbouring rows that are read together
pool      chunks from all over the split whose rows are shuffled together
batch     the rows of one training step; of a stream, the windows of one step
lane      one of the pieces that a stream is cut into for an epoch; they are read side by side
window    the tokens of all lanes that one step reads
"""
