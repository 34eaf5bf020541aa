-- Grain: one row per line of the validation split, blank ones included: what its content decides. See
-- rnnlm/corpora/line_digests.py.
create table validation_lines (
    line_id bigint primary key, -- from 0, in the corpus's order
    digest ubigint not null, -- of a blank line: that of the line before it in its document
    predicted_tokens bigint not null
);
