"""Steps of a datatrove pipeline (extra: datatrove), which filter documents and collect statistics by bits per byte."""

from typing import Any

from datatrove.data import Document
from datatrove.io import DataFolderLike
from datatrove.pipeline.filters.base_filter import BaseFilter
from datatrove.pipeline.stats.base import BaseStats
from datatrove.pipeline.writers.disk_base import DiskWriter

from rnnlm.extensions.scoring.batch_scorer import batch_scorer

NO_SCORE = "nothing_to_score"


class BitsPerByteFilter(BaseFilter):
    """A filter that keeps documents between two limits of bits per byte.

    The value is stored in the documents' metadata as `bits_per_byte`. Documents without a score are dropped.
    """

    name = "rnnlm bits per byte"

    def __init__(
        self,
        model: str | None = None,
        lowest: float = 0.0,
        highest: float = float("inf"),
        exclusion_writer: DiskWriter | None = None,
        batch_size: int = 1_024,
    ) -> None:
        super().__init__(exclusion_writer, batch_size)
        self.scorer = batch_scorer(model)
        self.lowest, self.highest = lowest, highest

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        return self.filter_batch([doc])[0]

    def filter_batch(self, batch: list[Document]) -> list[bool | tuple[bool, str]]:
        bits = self.scorer({"text": [document.text for document in batch]})["bits_per_byte"]
        for document, value in zip(batch, bits, strict=True):
            document.metadata["bits_per_byte"] = value
        return [self.verdict(value) for value in bits]

    def verdict(self, bits_per_byte: float | None) -> bool | tuple[bool, str]:
        """Return True to keep a document, or False and the reason to drop it."""
        if bits_per_byte is None:
            return False, NO_SCORE
        if bits_per_byte < self.lowest:
            return False, f"below_{self.lowest:g}_bits_per_byte"
        if bits_per_byte > self.highest:
            return False, f"above_{self.highest:g}_bits_per_byte"
        return True


class BitsPerByteStats(BaseStats):
    """The `bits_per_byte` statistic, which is 0 for documents without a score.

    If the filter has already scored a document, the stored value is used.
    """

    name = "rnnlm bits per byte"

    def __init__(self, output_folder: DataFolderLike, model: str | None = None, **settings: Any) -> None:
        """Load the scorer. `settings` are passed to datatrove's BaseStats."""
        super().__init__(output_folder, **settings)
        self.scorer = batch_scorer(model)

    def extract_stats(self, doc: Document) -> dict[str, int | float]:
        if "bits_per_byte" not in doc.metadata:
            doc.metadata["bits_per_byte"] = self.scorer({"text": [doc.text]})["bits_per_byte"][0]
        return {"bits_per_byte": doc.metadata["bits_per_byte"] or 0.0}
