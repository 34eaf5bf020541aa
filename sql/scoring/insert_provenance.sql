-- Adds the one row of scores_provenance; $provenance is JSON.
insert into scores_provenance (provenance)
values ($provenance);
