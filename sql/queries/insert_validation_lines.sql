-- Insert the Arrow table `incoming`, with the columns of validation_lines.
insert into validation_lines by name
select line_id, digest, predicted_tokens
from incoming
order by line_id;
