-- The file says once what it was made from. Returns the count where it is not one.
select count(*) as row_count
from dataset
having count(*) <> 1;
