-- The decision of a filter on each scored document. Grain: one row per document, in the order of the inputs.
create temporary table decisions (
    document bigint,
    source varchar,
    place bigint,
    bytes bigint,
    bits_per_byte double,
    reason varchar -- the rule that it fails; null: the document is kept
);
