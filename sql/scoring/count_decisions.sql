-- Grain: one row per reason for dropping documents, the most frequent first; the row without a reason: those kept.
select reason, count(*) as documents, sum(bytes)::bigint as bytes
from decisions
group by reason
order by reason is not null, documents desc, reason;
