-- The table dataset has exactly one row. Returns the count if it has not.
select count(*) as row_count
from dataset
having count(*) <> 1;
