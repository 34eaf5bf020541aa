"""Variants of a model that do more than predict, for instance learn from the text just scored. Extensions add them.

Their settings are options of `rnnlm evaluate`. Each variant is a Section, whose fields become options.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rnnlm.config import CorpusConfig

if TYPE_CHECKING:
    from rnnlm.display.text_layout import TableRows
    from rnnlm.storage.home import Home
    from rnnlm.storage.records import Split


class VariantTable(Protocol):
    """The results of a model and its variants, which are also a record of the values."""

    @property
    def rows(self) -> "TableRows":
        """The rows of the table, one per variant. The plain model comes first."""


class ModelVariants(Protocol):
    """Variants of a model that are selected by a user's options."""

    def is_wanted(self) -> bool:
        """Return True if a variant is selected. Raise ConfigError if the options contradict each other."""

    def measure(self, home: "Home", folder: Path, config: CorpusConfig, split: "Split | None") -> VariantTable:
        """Return the perplexities of the model in `folder` and of its variants on a split of a corpus."""
