-- The table of a scoring's output; replaces an existing one. Grain: one row per document, in the order of the inputs.
create or replace table scores (
    document bigint, -- from 0, over all inputs
    source varchar, -- the file it came from
    place bigint, -- from 0, within that file: its line, paragraph or row
    id varchar, -- of the input's id column
    tokens bigint, -- predicted, each line's <eos> among them
    bytes bigint, -- utf-8, line ends included
    log_probability double, -- natural logarithm, of the tokens together
    perplexity double, -- per token
    bits_per_byte double,
    unknown_rate double, -- share of the tokens that stand for a word the vocabulary lacks
    surprising struct(token varchar, place bigint, bits float)[], -- the most surprising first
    text varchar
);
