-- Insert the only row of provenance. Parameters: one per column.
insert into dataset (
    dataset_id, corpus_digest, tokenizer_digest, mode, context_length, block_length,
    vocabulary_size, splits_given, highest_line_digest, provenance
)
values (
    $dataset_id, $corpus_digest, $tokenizer_digest, $mode, $context_length, $block_length,
    $vocabulary_size, $splits_given, $highest_line_digest, $provenance
);
