"""A check of the beginning of each file, which reports errors before a server is started."""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.file_formats import TextReader
from rnnlm.corpora.source_files import SourceFile
from rnnlm.corpora.split_names import is_archive_name
from rnnlm.errors import CorpusError

LOOK_BYTES = 16 << 20  # The largest number of bytes that are read, which takes a fraction of a second.
# The largest number of bytes of documents that are read. It is smaller than LOOK_BYTES, because extracting prose takes
# longer.
CONVERTED_BYTES = 1 << 20


def look_at(source: str, files: list[SourceFile], named: bool, config: CorpusConfig) -> None:
    """Read up to LOOK_BYTES as the corpus stage would, and discard the text. Raise the same errors as the stage.

    If the files have more than LOOK_BYTES bytes, archives are skipped, because listing the members of a tar reads all
    of it.
    """
    size = sum(file.path.stat().st_size for file in files)
    with tempfile.TemporaryDirectory(prefix="rnnlm-look-") as scratch:
        convert = size <= CONVERTED_BYTES
        reader = TextReader(source, files, config, Path(scratch), named=named, convert=convert)
        if size <= LOOK_BYTES:
            texts = (text.pieces for text in reader.texts())
            if not any_text(texts):
                raise CorpusError(f"{source}: is empty; expected text")
        else:
            for file in files[:100]:
                if not is_archive_name(file.name) and reader.member_names(file) == [""]:
                    for _ in islice(reader.pieces_of_file(file, alone=len(files) == 1), 1):
                        pass


def any_text(texts: Iterable[Iterator[str]]) -> bool:
    """Return True if the texts contain more than white space. At most about LOOK_BYTES characters are read."""
    found, characters = False, 0
    for pieces in texts:
        for piece in pieces:
            found = found or not (piece.isspace() or not piece)
            characters += len(piece)
            if characters >= LOOK_BYTES:
                return True
    return found
