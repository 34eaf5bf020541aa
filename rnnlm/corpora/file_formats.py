"""Readers of text in plain, compressed and archived files of any format, which assign each text to a split."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.compression import OpenFile
from rnnlm.corpora.document_formats import DocumentError, document_reader
from rnnlm.corpora.format_detection import PAGE_INSTEAD, archive_kind, detect_format
from rnnlm.corpora.local_files import nothing_left
from rnnlm.corpora.parquet_tables import parquet_rows
from rnnlm.corpora.printable_names import unreadable
from rnnlm.corpora.reading_report import ReadingReport
from rnnlm.corpora.source_files import Opener, SourceFile
from rnnlm.corpora.split_names import (
    ARCHIVE,
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    check_roles,
    is_archive_name,
    named_splits,
    reason_by_name,
    suffix_of,
)
from rnnlm.corpora.table_cells import Row, column_texts
from rnnlm.corpora.table_files import csv_rows, json_rows, measured
from rnnlm.corpora.text_encoding import Decoding, EncodingError, encoding_errors, encoding_of, text_pieces
from rnnlm.errors import CorpusError

DOCUMENT_KINDS = frozenset(DOCUMENT_SUFFIXES.values())
# The suffixes of documents that are zip files but are not read as archives.
ZIP_DOCUMENTS = {".odt", ".xlsx", ".ods", ".pptx", ".odp", ".jar"}
OFFICE = "a document in a format that is not read; save it as .txt, .html or .docx"
ARCHIVE_INSIDE = "an archive inside an archive"
OTHER_SPLIT = "other files name their split and this file does not; rename this file"


@dataclass(frozen=True)
class Text:
    """The text of a file or archive member, which is read lazily."""

    role: str  # The name of a split, or "text" if the file's name does not name a split.
    label: str
    pieces: Iterator[str]
    kind: str  # "text", or the kind of a table or a document.
    encoding: str

    @property
    def rows(self) -> bool:
        """True if each piece of the text is a row of a table."""
        return self.kind in TABLE_SUFFIXES.values()


# Each file with its wanted members. The keys of members are their names, or "" for the file itself. The values are
# splits or "text".
FilePlan = list[tuple[SourceFile, dict[str, str]]]


class TextReader:
    """A reader of the text in the files of one source, and a report of the files that are left out."""

    def __init__(
        self,
        source: str,
        files: Sequence[SourceFile],
        config: CorpusConfig,
        scratch: Path,
        *,
        named: bool = False,
        convert: bool = True,
    ) -> None:
        """Prepare to read the files of a source.

        Args:
            scratch: A folder for temporary files.
            named: Whether the names of the files may stand for splits. The name of a single file may not.
            convert: Whether documents are converted to prose. If not, they are read with their markup, which is faster.
        """
        self.source, self.files, self.config, self.named, self.convert = source, files, config, named, convert
        above = files[0].label.removesuffix(files[0].name) if files[0].label.endswith(files[0].name) else ""
        self.report = ReadingReport(above, all_must_decode=config.undecodable != "guess")
        self.decoding = Decoding(config.encoding, config.undecodable, self.report.note)
        self.opener = Opener(config, scratch)

    def texts(self) -> Iterator[Text]:
        """Yield every text in the order of the files. The members of a zip are sorted by name, those of a tar are not.

        Documents that cannot be read are left out. At the end, raise one CorpusError for all files that cannot be
        decoded.
        """
        plan, report = self.plan(), self.report
        alone = sum(len(roles) for _, roles in plan) == 1
        tried = read = 0
        for file, roles in plan:
            for member, opened in self.opener.members(file, roles):
                if opened is not None:
                    tried += 1
                    text = self.readable_text(roles[member], opened, alone)
                    if text is not None:
                        yield text
                        read += 1
        if report.undecodable:
            raise encoding_errors(self.source, report.undecodable, tried)
        if report.refused is not None and not report.any_piece:
            raise report.refused
        if not read:
            raise nothing_left(self.source, report.left_out)

    def pieces_of_file(self, file: SourceFile, *, alone: bool = True) -> Iterator[str]:
        """Yield the text of a file that is not an archive. `alone` is true if the source has no other file."""
        with self.opener.outermost(file) as opened:
            text = self.readable_text("text", opened, alone)
            if text is not None:
                yield from text.pieces
        if self.report.undecodable:
            raise self.report.undecodable[-1]

    def plan(self) -> FilePlan:
        """Choose the files and archive members to read, before any text is read.

        Archives are scanned for the names of their members.
        """
        plan: FilePlan = []
        own = named_splits(file.name for file in self.files) if self.named else {}
        for file in self.files:
            names = self.member_names(file)
            reasons = {name: reason_by_name(name, self.config.format) if name else None for name in names}
            members = [name for name in names if not reasons[name]]
            for name, reason in sorted((name, reason) for name, reason in reasons.items() if reason):
                self.report.leave_out(full_name(file, name), ARCHIVE_INSIDE if reason == ARCHIVE else reason)
            if not members and any(map(is_archive_name, names)):
                raise CorpusError(
                    f"{file.label}: has archives but no text; unpack it, because archives in an archive are not read"
                )
            inside = named_splits(members)
            plan.append((file, {name: own.get(file.name) or inside[name] or "text" for name in members}))
        roles = {full_name(file, name): role for file, wanted in plan for name, role in wanted.items()}
        if not roles:
            raise nothing_left(self.source, self.report.left_out)
        check_roles(self.source, roles)
        if "train" in roles.values():
            for name, role in roles.items():
                if role == "text":
                    self.report.leave_out(name, OTHER_SPLIT)
            plan = [(file, {name: role for name, role in wanted.items() if role != "text"}) for file, wanted in plan]
        return [(file, wanted) for file, wanted in plan if wanted]

    def member_names(self, file: SourceFile) -> list[str]:
        """Return the checked names of an archive's regular members, or [""] for a file that is not an archive."""
        if suffix_of(file.name) in ZIP_DOCUMENTS:
            with self.opener.outermost(file) as opened:
                if archive_kind(opened.head, opened.plain_name):
                    self.report.leave_out(file.name, OFFICE)
                    return []
        return [member for member, _ in self.opener.members(file, ())]

    def readable_text(self, role: str, opened: OpenFile, alone: bool) -> Text | None:
        """Return the text. If the file cannot be read, add the reason to the report and return None.

        `alone` is true if the source has no other text.
        """
        try:
            text = self.text(role, opened)
        except EncodingError as error:
            self.report.refuse(error, begun=False, alone=alone)
        except DocumentError as error:
            self.report.leave_out(self.report.name_of(opened.label), str(error))
        else:
            return replace(text, pieces=self.report.readable(text.pieces, text.label, alone=alone))
        return None

    def text(self, role: str, opened: OpenFile) -> Text:
        """Return the text of a file in any format. Raise DocumentError if a document cannot be read.

        A document is read completely by this call. Any other text is read later, piece by piece.
        """
        label = opened.label
        kind = detect_format(opened.head, opened.plain_name) if self.config.format == "auto" else self.config.format
        encoding = "utf-8" if kind == "parquet" else encoding_of(opened.head, self.config.encoding)
        if kind == "html" and suffix_of(opened.plain_name) not in DOCUMENT_SUFFIXES:
            self.report.note(label, f"an HTML page, whose prose is read; {PAGE_INSTEAD}", "format")
        if kind in DOCUMENT_KINDS:
            reader = document_reader()
            data = read_document(opened, reader.MAXIMUM_BYTES[kind])
            # The page may declare its encoding, because the file has no byte-order mark.
            if kind == "html" and encoding == self.config.encoding:
                encoding = reader.declared_charset(data[:4096]) or encoding
            markup = ""
            if kind not in reader.BINARY_KINDS:
                markup = "".join(text_pieces(io.BytesIO(data), label, self.decoding._replace(encoding=encoding)))
            self.report.any_piece = True
            prose = reader.document_prose(kind, data, markup) if self.convert else markup or "…"
            return Text(role, label, iter([prose]), kind, "" if kind in reader.BINARY_KINDS else encoding)
        if kind == "text":
            pieces = text_pieces(opened, label, self.decoding)
        else:
            column = self.config.column or "text"
            pieces = column_texts(self.rows(opened, kind, [column]), label, column, self.decoding)
        return Text(role, label, pieces, kind, encoding)

    def rows(self, table: OpenFile, kind: str, columns: list[str], *, sparse: bool = False) -> Iterator[Row]:
        """Yield the cells of the given columns for each row of a table.

        Args:
            kind: csv, tsv, jsonl or parquet.
            sparse: Whether objects of a JSON lines file may lack a column.
        """
        if kind == "parquet":
            with self.opener.seekable(table) as file:
                yield from parquet_rows(file, table.label, columns, self.decoding, table.meter)
            return
        pieces = text_pieces(table, table.label, self.decoding)
        if kind == "jsonl":
            yield from json_rows(pieces, table.label, columns, sparse=sparse)
        else:
            dialect, pieces = measured(pieces, table.label, kind, self.config.quoting, self.decoding)
            yield from csv_rows(pieces, table.label, columns, kind, self.decoding, dialect)


def read_document(opened: OpenFile, maximum_bytes: int) -> bytes:
    """Return all bytes of a document. Raise DocumentError if there are more than `maximum_bytes`."""
    try:
        data = opened.read(maximum_bytes + 1)
    except OSError as error:
        raise unreadable(opened.label, error) from error
    if len(data) > maximum_bytes:
        raise DocumentError(f"has more than {maximum_bytes:,} bytes; corpus.format=text reads it with its markup")
    return data


def full_name(file: SourceFile, member: str) -> str:
    return f"{file.name}: {member}" if member else file.name
