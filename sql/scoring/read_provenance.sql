-- Grain: one row, or none: what made the table scores.
select provenance
from scores_provenance;
