-- The one row of scores_provenance: $provenance is json.
insert into scores_provenance (provenance)
values ($provenance);
