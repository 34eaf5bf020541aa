-- Runs once, on an empty PostgreSQL: a database for each server. Both create their own tables.
create database mlflow;
create database prefect;
\connect prefect
create extension if not exists pg_trgm;
