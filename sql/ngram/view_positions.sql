-- Grain: one row per predicted token of the attached dataset, with the four tokens before it in its row (0: none).
-- Shifted lists are unnested together: without a window function nothing is held in memory.
create temporary view positions as
select
    split,
    sequence_id,
    unnest(range(len(token_ids) - 1)) as position, -- from 0 within the row's targets
    unnest(([0, 0, 0] || token_ids)[:-5])::token_id as c4,
    unnest(([0, 0] || token_ids)[:-4])::token_id as c3,
    unnest(([0] || token_ids)[:-3])::token_id as c2,
    unnest(token_ids[:-2])::token_id as c1,
    unnest(token_ids[2:])::token_id as word
from dataset.shifted_sequences;
