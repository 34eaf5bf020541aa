"""The report about files that were not read, or read with changes, because of unexpected content."""

import logging
from collections.abc import Iterator, Sequence

from rnnlm.corpora.printable_names import printable, shortened
from rnnlm.corpora.split_names import HIDDEN_NAME, NOTE_REASON
from rnnlm.corpora.table_cells import TableError
from rnnlm.corpora.text_encoding import EncodingError
from rnnlm.storage.records import LeftOut

LEFT_OUT_KEPT = 1_000  # The largest number of left-out files whose names are stored.
logger = logging.getLogger(__name__)


def log_left_out(source: str, left_out: Sequence[LeftOut], advice: str = "") -> None:
    """Log one line about the files that were left out and one about the files that were read with changes.

    Hidden files and files about a corpus, such as README, are not mentioned.
    """
    for read, what in ((False, "left out"), (True, "read with changes")):
        found = [one for one in left_out if one.read == read and one.reason not in (HIDDEN_NAME, NOTE_REASON)]
        if found:
            names = shortened(f"{one.name} ({one.reason})" for one in found)
            logger.warning("%s: %s %s: %s%s", source, f"{len(found):,}", what, names, advice)


def listed(left_out: tuple[LeftOut, ...]) -> tuple[LeftOut, ...]:
    """Return at most LEFT_OUT_KEPT of the files, and an entry with the number of the others."""
    if len(left_out) <= LEFT_OUT_KEPT:
        return left_out
    more = LeftOut(name=f"{len(left_out) - LEFT_OUT_KEPT:,} more", reason="not listed here")
    return (*left_out[:LEFT_OUT_KEPT], more)


class ReadingReport:
    """The files that were not read or read with changes, and the errors to raise after all files were tried."""

    def __init__(self, above: str, *, all_must_decode: bool) -> None:
        """Create an empty report.

        Args:
            above: The beginning that all labels have in common.
            all_must_decode: Whether it is an error if a file is not text in any encoding.
        """
        self.above, self.all_must_decode = above, all_must_decode
        self.left_out: list[LeftOut] = []
        self.undecodable: list[EncodingError] = []
        # The error that was raised for the first table that is damaged or does not have the column.
        self.refused: TableError | None = None
        self.any_piece = False  # True if any piece of text was read.
        self.noted: set[tuple[str, str]] = set()  # The file and the subject of each note.

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(name=printable(name), reason=reason))

    def note(self, label: str, what: str, about: str = "bytes") -> None:
        """Record a note about how a file was read if this was uncertain.

        Only the first note about each subject of a file is kept.
        """
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
        """Return the name of a file relative to the deepest folder that contains all files."""
        return printable(label.removeprefix(self.above))

    def readable(self, pieces: Iterator[str], label: str, *, alone: bool) -> Iterator[str]:
        """Yield the pieces of a text until one cannot be read.

        Record the reason, so that reading continues with the next file. If `alone` is true, there is no other file, and
        TableError is raised instead.
        """
        begun = False
        try:
            for piece in pieces:
                begun = self.any_piece = True
                yield piece
        except EncodingError as error:
            self.refuse(error, begun=begun, alone=alone)
        # The file is left out, because a folder of texts may contain JSON files that are not tables, such as
        # package.json.
        except TableError as error:
            if alone:
                raise
            self.refused = self.refused or error
            self.leave_rest(label, str(error).partition("\n")[0].removeprefix(f"{label}: ").removesuffix(";"), begun)

    def refuse(self, error: EncodingError, *, begun: bool, alone: bool) -> None:
        """Leave out a file that is not text in any encoding, unless it is the only file or all must be text."""
        if alone or self.all_must_decode:
            self.undecodable.append(error)
        else:
            self.leave_rest(error.label, f"{error.place}; no encoding fits", begun)

    def leave_rest(self, label: str, reason: str, begun: bool) -> None:
        """Leave out the rest of a file that cannot be read. `begun` is true if the text before this part was read."""
        reason += "; the text before it was read" if begun else ""
        self.left_out.append(LeftOut(name=self.name_of(label), reason=reason, read=begun))
