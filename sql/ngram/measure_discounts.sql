-- Adds the discounts of $ngram_order (Chen & Goodman 1998): Y = n1 / (n1 + 2 n2), D_k = k - (k + 1) Y n_{k+1} / n_k
-- for k = 1, 2 and 3 (or more). If a count of counts is 0 or a discount is outside (0, k]: 0.5, 1 and 1.5, as in KenLM.
insert into discounts (ngram_order, n1, n2, n3, n4, d1, d2, d3, estimated)
with counts_of_counts as (
    select
        count(*) filter (where count = 1) as n1,
        count(*) filter (where count = 2) as n2,
        count(*) filter (where count = 3) as n3,
        count(*) filter (where count = 4) as n4
    from ngrams
    where ngram_order = $ngram_order
),
shares as (
    select n1, n2, n3, n4, n1 / nullif(n1 + 2 * n2, 0) as y
    from counts_of_counts
),
estimates as (
    select
        n1, n2, n3, n4,
        1 - 2 * y * n2 / nullif(n1, 0) as d1,
        2 - 3 * y * n3 / nullif(n2, 0) as d2,
        3 - 4 * y * n4 / nullif(n3, 0) as d3
    from shares
),
judged as (
    select
        n1, n2, n3, n4, d1, d2, d3,
        n1 > 0 and n2 > 0 and n3 > 0 and n4 > 0
        and coalesce(d1 > 0 and d1 <= 1 and d2 > 0 and d2 <= 2 and d3 > 0 and d3 <= 3, false) as estimated
    from estimates
)
select
    $ngram_order, n1, n2, n3, n4,
    if(estimated, d1, 0.5), if(estimated, d2, 1.0), if(estimated, d3, 1.5), estimated
from judged;
