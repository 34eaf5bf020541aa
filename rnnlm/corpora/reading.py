"""Text comes in through Hugging Face `datasets`, line by line, nothing held in memory."""

import logging
from collections.abc import Iterator
from pathlib import Path

LINES_AT_ONCE = 10_000


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file of the home with their line ends; joined, they are the file exactly.

    `datasets` turns other line ends into a line feed, which is why a corpus is stored with line feeds alone.
    Streaming reads the file where it lies: no copy in a cache, no request to a hub.
    """
    from datasets import load_dataset

    logging.getLogger("fsspec.local").setLevel(logging.WARNING)
    rows = load_dataset("text", data_files={"train": str(path)}, split="train", streaming=True, keep_linebreaks=True)
    for batch in rows.iter(batch_size=LINES_AT_ONCE):
        yield from batch["text"]
