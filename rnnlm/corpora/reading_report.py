"""Files of a source that are left out or read with changes, because their bytes are not what was expected."""

import logging
from collections.abc import Iterator, Sequence

from rnnlm.corpora.printable_names import printable, shortened
from rnnlm.corpora.split_names import HIDDEN_NAME, NOTE_REASON
from rnnlm.corpora.table_cells import TableError
from rnnlm.corpora.text_encoding import EncodingError
from rnnlm.storage.records import LeftOut

LEFT_OUT_KEPT = 1_000  # most names of files that were not read to be stored
logger = logging.getLogger(__name__)


def log_left_out(source: str, left_out: Sequence[LeftOut], advice: str = "") -> None:
    """Log a line for what was left out, except notes and hidden files, and one for what was read with changes."""
    for read, what in ((False, "left out"), (True, "read with changes")):
        found = [one for one in left_out if one.read == read and one.reason not in (HIDDEN_NAME, NOTE_REASON)]
        if found:
            names = shortened(f"{one.name} ({one.reason})" for one in found)
            logger.warning("%s: %s %s: %s%s", source, f"{len(found):,}", what, names, advice)


def listed(left_out: tuple[LeftOut, ...]) -> tuple[LeftOut, ...]:
    """Return at most LEFT_OUT_KEPT of them, and the number of others."""
    if len(left_out) <= LEFT_OUT_KEPT:
        return left_out
    more = LeftOut(name=f"{len(left_out) - LEFT_OUT_KEPT:,} more", reason="not listed here")
    return (*left_out[:LEFT_OUT_KEPT], more)


class ReadingReport:
    """The files that were left out or read with changes, and errors that are raised when all files were tried."""

    def __init__(self, above: str, *, all_must_decode: bool) -> None:
        """Begin a report. above: the beginning of all labels.

        all_must_decode: a file that is no text in any encoding is an error.
        """
        self.above, self.all_must_decode = above, all_must_decode
        self.left_out: list[LeftOut] = []
        self.undecodable: list[EncodingError] = []
        self.refused: TableError | None = None  # the first table that is not one, or lacks the column
        self.any_piece = False  # of any text
        self.noted: set[tuple[str, str]] = set()  # file, and what the note on it is about

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(name=printable(name), reason=reason))

    def note(self, label: str, what: str, about: str = "bytes") -> None:
        """Remember how a file was read where that was not certain: the first note about each thing."""
        name = self.name_of(label)
        if (name, about) in self.noted:
            return
        self.noted.add((name, about))
        for place, one in enumerate(self.left_out):
            if one.name == name:
                self.left_out[place] = LeftOut(name=name, reason=f"{one.reason}; {what}", read=one.read)
                return
        self.left_out.append(LeftOut(name=name, reason=what, read=True))

    def name_of(self, label: str) -> str:
        """Return the file's name below the folder that holds them all."""
        return printable(label.removeprefix(self.above))

    def readable(self, pieces: Iterator[str], label: str, *, alone: bool) -> Iterator[str]:
        """Yield the pieces up to one that cannot be read, which is noted: the other files are still looked at.

        alone: there are no others, so TableError is raised.
        """
        begun = False
        try:
            for piece in pieces:
                begun = self.any_piece = True
                yield piece
        except EncodingError as error:
            self.refuse(error, begun=begun, alone=alone)
        except TableError as error:  # such as a package.json among texts
            if alone:
                raise
            self.refused = self.refused or error
            self.leave_rest(label, str(error).partition("\n")[0].removeprefix(f"{label}: ").removesuffix(";"), begun)

    def refuse(self, error: EncodingError, *, begun: bool, alone: bool) -> None:
        """Leave out a file that is no text in any encoding, unless it is the only one or all have to be text."""
        if alone or self.all_must_decode:
            self.undecodable.append(error)
        else:
            self.leave_rest(error.label, f"{error.place}; no encoding fits", begun)

    def leave_rest(self, label: str, reason: str, begun: bool) -> None:
        """Leave out the rest of a file that cannot be read. begun: True if what stands before it was read."""
        reason += "; what stands before it was read" if begun else ""
        self.left_out.append(LeftOut(name=self.name_of(label), reason=reason, read=begun))
