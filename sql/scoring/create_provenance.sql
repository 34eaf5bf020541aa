-- What made the table scores. Grain: one row. What was there is replaced.
create or replace table scores_provenance (
    provenance varchar -- json: model, inputs, settings, versions, and the key they make
);
