"""Variants of a model that are evaluated with a cache or test-time adaptation.

Extensions add variants. Each variant is a Section, whose fields become options of `rnnlm evaluate`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rnnlm.config import CorpusConfig

if TYPE_CHECKING:
    from rnnlm.display.text_layout import TableRows
    from rnnlm.storage.home import Home
    from rnnlm.storage.records import Split


class VariantTable(Protocol):
    """The results of a model and its variants, as a record that can be shown as a table."""

    @property
    def rows(self) -> "TableRows":
        """The rows of the table, one per variant. The plain model comes first."""


class ModelVariants(Protocol):
    """Variants of a model, which a user selects by options."""

    def is_wanted(self) -> bool:
        """Return True if a variant is selected. Raise ConfigError if the options contradict each other."""

    def measure(self, home: "Home", folder: Path, config: CorpusConfig, split: "Split | None") -> VariantTable:
        """Return the perplexities of the model in `folder` and of its variants on a split of a corpus."""
