"""A first look at files: what is wrong at their beginning is told before anything is started for them."""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.file_formats import Opener, SourceFile
from rnnlm.corpora.split_names import is_archive_name
from rnnlm.errors import CorpusError

LOOK_BYTES = 16 << 20  # read at most: a fraction of a second


def look_at(source: str, paths: tuple[Path, ...], named: bool, config: CorpusConfig) -> None:
    """Read the files as the corpus stage will, up to LOOK_BYTES, and keep nothing. CorpusError as that would raise.

    Of more than LOOK_BYTES only files that are no archives are looked into: to list a tar, all of it must be read.
    """
    files = [SourceFile(path, str(path), path.name) for path in paths]
    with tempfile.TemporaryDirectory(prefix="rnnlm-look-") as scratch:
        opener = Opener(source, config, Path(scratch), quiet=True)
        if sum(path.stat().st_size for path in paths) <= LOOK_BYTES:
            texts = (text.pieces for text in opener.texts(files, named))
            if not any_text(texts):
                raise CorpusError(f"{source}: is empty; expected text")
        else:
            for file in files[:100]:
                if not is_archive_name(file.name) and opener.member_names(file) is None:
                    for _ in islice(opener.pieces_of_file(file), 1):
                        pass


def any_text(texts: Iterable[Iterator[str]]) -> bool:
    """True if there is anything but white space, as far as LOOK_BYTES reach."""
    found, characters = False, 0
    for pieces in texts:
        for piece in pieces:
            found = found or not (piece.isspace() or not piece)
            characters += len(piece)
            if characters >= LOOK_BYTES:
                return True
    return found
