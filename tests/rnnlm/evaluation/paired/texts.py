"""A corpus of few short documents: the texts, and where a test finds them."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.storage.records import DatasetRecord

TRAIN = ["the cat sees .\n\n", "the dog sees .\n\n", "the cat sees .\n\n"]
VALID = ["a fox runs .\n\n", "the dog sees .\n\n", "a bird runs .\n\n", "a fox runs .\n\n", "the zebra runs .\n"]


@dataclass(frozen=True)
class Ground:
    dataset: DatasetRecord
    corpus_folder: Path
