-- What made the table scores; replaces an existing one. Grain: one row.
create or replace table scores_provenance (
    provenance varchar -- json: model, inputs, settings, versions, and the key they make
);
