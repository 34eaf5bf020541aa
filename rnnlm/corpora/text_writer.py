"""Write the text of a corpus: one file per role, with digests."""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.cleaning import cleaned
from rnnlm.corpora.line_breaking import LINE_CHARACTERS, LineBreaker
from rnnlm.corpora.source_index import SourceIndex
from rnnlm.errors import CorpusError, HomeError
from rnnlm.storage.records import SPLITS

logger = logging.getLogger(__name__)


class CorpusWriter:
    """Writes cleaned `<role>.txt` files and the index of their sources into a folder."""

    def __init__(self, folder: Path, config: CorpusConfig) -> None:
        self.folder, self.config = folder, config
        self.hashes: dict[str, hashlib._Hash] = {}
        self.indexes: dict[str, SourceIndex] = {}
        self.corpus_bytes = 0
        self.any_text = False  # other than white space

    def append(self, role: str, pieces: Iterator[str], label: str, *, rows: bool = False) -> None:
        """Append a source's text to the role's file, with a line feed at its end.

        rows: each piece is a table row, a source of its own that ends with a line feed.
        """
        hash_ = self.hashes.setdefault(role, hashlib.sha256())
        path = self.folder / self.files[role]
        breaker = LineBreaker()
        last = b"\n"
        index = self.indexes.setdefault(role, SourceIndex(self.folder / f"{role}.sources"))
        with path.open("ab") as target, index.opened():

            def write(data: bytes) -> None:
                try:
                    target.write(data)
                except OSError as error:
                    raise HomeError(f"{path}: cannot be written ({error.strerror}); free some space") from error
                hash_.update(data)
                self.corpus_bytes += len(data)

            for piece in cleaned(breaker(pieces), self.config):
                data = piece.encode()
                write(data)
                index.add(data)
                self.any_text = self.any_text or not (piece.isspace() or not piece)
                last = data[-1:] or last
                if rows:
                    index.end_source()
            if last != b"\n":
                write(b"\n")
                index.add(b"\n")
            index.end_source()
        if breaker.breaks:
            logger.warning(
                "%s: lines of more than %s characters were broken %s times; give text with line ends to avoid this",
                label,
                f"{LINE_CHARACTERS:,}",
                f"{breaker.breaks:,}",
            )

    @property
    def files(self) -> dict[str, str]:
        """Role → name of its file."""
        return {role: f"{role}.txt" for role in self.hashes}

    @property
    def digests(self) -> dict[str, str]:
        return {role: hash_.hexdigest() for role, hash_ in sorted(self.hashes.items())}

    @property
    def source_counts(self) -> dict[str, int]:
        """Role → number of its files, archive members and table rows."""
        return {role: index.count for role, index in sorted(self.indexes.items())}

    @property
    def written(self) -> list[str]:
        """Names of all written files; a role with one source has no index."""
        return [
            *self.files.values(),
            *(index.path.name for index in self.indexes.values() if index.count > 1),
        ]

    @property
    def digest(self) -> str:
        """The sha256 of a single source; else the sha256 over each role's name, digest and index digest."""
        if self.source_counts.get("text") == 1:
            return self.digests["text"]
        lines = ""
        for role in ("text", *SPLITS):
            if role in self.hashes:
                index = self.indexes[role]
                lines += f"{role} {self.digests[role]}{f' {index.digest}' if index.count > 1 else ''}\n"
        return hashlib.sha256(lines.encode()).hexdigest()

    def refuse_emptiness(self, source: str) -> None:
        if not self.any_text:
            raise CorpusError(f"{source}: is empty; expected text")
