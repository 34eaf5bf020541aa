-- Grain: one row: the two-sample Kolmogorov-Smirnov distance of shares (Smirnov 1939): the largest difference between
-- the two distribution functions, which jump only at the values of shares. Null if either side is empty.
select
    coalesce(sum(scored), 0)::bigint as documents,
    coalesce(sum(reference), 0)::bigint as reference_documents,
    max(abs(scored_share - reference_share)) as distance
from shares;
