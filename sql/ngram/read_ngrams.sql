-- Grain: one row per n-gram of $ngram_order, in the order of the tree of contexts: by the last token before the word
-- first.
select c1, c2, c3, c4, word, count
from ngrams
where ngram_order = $ngram_order
order by c1, c2, c3, c4, word;
