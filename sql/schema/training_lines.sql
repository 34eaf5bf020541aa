-- Grain: one row per different digest of a shard's training lines, at most highest_line_digest of the table `dataset`.
create table training_lines (digest ubigint not null);
