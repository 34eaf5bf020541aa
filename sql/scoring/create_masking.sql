-- A text whose numbers and hexadecimal identifiers are replaced by 0: lines of one template become equal.
create temporary macro masked(line) as regexp_replace(line, '(?i)[0-9a-f]*[0-9][0-9a-f]*', '0', 'g');
