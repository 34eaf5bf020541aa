-- Grain: one row per distinct fingerprint below $below, 16 hexadecimal digits, of a text that training has seen: a
-- document of the training split (with $validation_too, of the validation split, too), or a line of the training split.
select distinct
    left(fingerprint, 16) as sha256,
    false as is_line
from documents
where (split = 'train' or (split = 'valid' and $validation_too)) and fingerprint < $below
union all
select distinct
    lower(printf('%016x', digest)) as sha256,
    true as is_line
from training_lines
where lower(printf('%016x', digest)) < $below
order by is_line, sha256;
