-- Both distributions of bits per byte side by side. Grain: one row per distinct value.
create temporary table shares (
    value double, -- bits per byte
    scored bigint, -- documents of scores with that very value
    reference bigint, -- and of the reference
    scored_share double, -- of the documents of scores, at that value or below: its distribution function
    reference_share double
);
