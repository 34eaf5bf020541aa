-- Insert the Arrow table `incoming`, with the column of training_lines.
insert into training_lines by name
select digest
from incoming
order by digest;
