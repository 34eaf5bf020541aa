"""The text of a corpus goes to disk: one file a role, its digest taken on the way."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.cleaning import cleaned, encoded
from rnnlm.errors import CorpusError, HomeError
from rnnlm.records import SPLITS


class CorpusWriter:
    """Writes `<role>.txt` files into a folder, cleaned as configured."""

    def __init__(self, folder: Path, config: CorpusConfig) -> None:
        self.folder, self.config = folder, config
        self.hashes: dict[str, hashlib._Hash] = {}
        self.corpus_bytes = 0
        self.any_text = False  # other than white space

    def append(self, role: str, pieces: Iterator[str], label: str) -> None:
        """Add a text to the role's file; its last line ends like the others."""
        hash_ = self.hashes.setdefault(role, hashlib.sha256())
        path = self.folder / self.files[role]
        last = b"\n"
        with path.open("ab") as target:

            def write(data: bytes) -> None:
                try:
                    target.write(data)
                except OSError as error:
                    raise HomeError(f"{path}: cannot be written ({error.strerror}); free some space") from error
                hash_.update(data)
                self.corpus_bytes += len(data)

            for piece in cleaned(pieces, self.config):
                data = encoded(piece, self.config, label)
                write(data)
                self.any_text = self.any_text or not (piece.isspace() or not piece)
                last = data[-1:] or last
            if last != b"\n":
                write(b"\n")

    @property
    def files(self) -> dict[str, str]:
        """Role → name of its file."""
        return {role: f"{role}.txt" for role in self.hashes}

    @property
    def digests(self) -> dict[str, str]:
        return {role: hash_.hexdigest() for role, hash_ in sorted(self.hashes.items())}

    @property
    def digest(self) -> str:
        """One text's own sha256; of splits, the sha256 over each split's name and digest."""
        if "text" in self.hashes:
            return self.digests["text"]
        lines = "".join(f"{split} {self.digests[split]}\n" for split in SPLITS if split in self.hashes)
        return hashlib.sha256(lines.encode()).hexdigest()

    def refuse_emptiness(self, source: str) -> None:
        if not self.any_text:
            raise CorpusError(f"{source}: is empty; expected text")
