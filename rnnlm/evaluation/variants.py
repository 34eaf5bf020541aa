"""Variants of a model that do more than predict, such as learning from the text just scored. Extensions add them.

Their settings are options of `rnnlm evaluate`: each variant is a Section whose fields become options.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rnnlm.config import CorpusConfig

if TYPE_CHECKING:
    from rnnlm.display.text_layout import TableRows
    from rnnlm.storage.home import Home
    from rnnlm.storage.records import Split


class VariantTable(Protocol):
    """Results of a model and its variants; also a record with the figures."""

    @property
    def rows(self) -> "TableRows":
        """One row per variant, the plain model first."""


class ModelVariants(Protocol):
    """Variants of a model that a user's options ask for."""

    def is_wanted(self) -> bool:
        """Return True if a variant is asked for. Raise ConfigError if the options do not fit each other."""

    def measure(self, home: "Home", folder: Path, config: CorpusConfig, split: "Split | None") -> VariantTable:
        """Return the perplexities of the model in `folder` on a split of a corpus, plain and in its variants."""
