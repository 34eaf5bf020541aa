"""Find and read text in files of any format, plain, compressed or archived, and assign it to splits."""

import contextlib
import io
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rnnlm.config import CorpusConfig
from rnnlm.corpora.archives import archive_kind, archive_members
from rnnlm.corpora.compression import Meter, OpenFile, decompressed
from rnnlm.corpora.document_formats import DocumentError, document_reader
from rnnlm.corpora.local_files import NO_TEXT, NOTE_REASON, nothing_left
from rnnlm.corpora.split_names import (
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    check_roles,
    is_archive_name,
    is_note,
    may_be_read,
    named_splits,
    suffix_of,
)
from rnnlm.corpora.table_files import PARQUET_MARK, Row, TableError, column_texts, csv_rows, json_rows, parquet_rows
from rnnlm.corpora.text_encoding import (
    Decoding,
    EncodingError,
    encoding_errors,
    encoding_of,
    printable,
    text_pieces,
    unreadable,
)
from rnnlm.errors import CorpusError
from rnnlm.storage.records import LeftOut

DOCUMENT_KINDS = frozenset(DOCUMENT_SUFFIXES.values())
HTML_MARKS = (b"<!doctype html", b"<html")
ZIP_DOCUMENTS = {".odt", ".xlsx", ".ods", ".pptx", ".odp", ".jar"}  # zip files that are no archives
OFFICE = "a document that is not read; save it as .txt, .html or .docx"
ARCHIVE_INSIDE = "an archive inside an archive"
OTHER_SPLIT = "other names tell a split and this does not; rename it"


@dataclass(frozen=True)
class SourceFile:
    """A file on disk, its name in messages, and the name that determines its format."""

    path: Path
    label: str
    name: str


@dataclass(frozen=True)
class Text:
    """The text of one file or archive member, read lazily."""

    role: str  # a split, or "text"
    label: str
    pieces: Iterator[str]
    kind: str  # text, a kind of table or a kind of document
    encoding: str

    @property
    def rows(self) -> bool:
        """Each piece is a row of a table."""
        return self.kind in TABLE_SUFFIXES.values()


FilePlan = list[tuple[SourceFile, dict[str, str]]]  # each file and its wanted members → roles; "": the file itself


class Opener:
    """Reads the files of one source, counts their unpacked bytes, and notes what it leaves out."""

    def __init__(self, source: str, config: CorpusConfig, scratch: Path, *, convert: bool = True) -> None:
        """convert: False gives the text of documents with their markup, which is quick."""
        self.decoding = Decoding(config.encoding, config.undecodable, self.note)
        self.source, self.config, self.scratch, self.convert = source, config, scratch, convert
        self.unpacked_bytes = 0
        self.left_out: list[LeftOut] = []
        self.undecodable: list[EncodingError] = []
        self.text_count = 0
        self.alone = True  # the source has one text
        self.refused: TableError | None = None  # the first table that is not one, or lacks the column
        self.any_piece = False  # of any text
        self.above = ""  # the beginning of all labels

    def texts(self, files: list[SourceFile], named: bool) -> Iterator[Text]:
        """Every text in the order of the files (members of a zip by name, of a tar as stored).

        named: the names of the files may stand for splits, as in a folder; that of a single file does not. Documents
        that cannot be read are left out. CorpusError at the end for all texts in another encoding.
        """
        read = 0
        plan = self.plan(files, named)
        self.alone = sum(len(roles) for _, roles in plan) == 1
        self.above = files[0].label.removesuffix(files[0].name) if files[0].label.endswith(files[0].name) else ""
        for file, roles in plan:
            for member, opened in self.open(file, roles):
                if opened is not None:
                    for text in self.readable(roles[member], opened):
                        yield text
                        read += 1
        if self.undecodable:
            raise encoding_errors(self.source, self.undecodable, self.text_count)
        if self.refused is not None and not self.any_piece:
            raise self.refused
        if not read:
            raise nothing_left(self.source, self.left_out)

    def pieces_of_file(self, file: SourceFile) -> Iterator[str]:
        """The text of a file that is not an archive."""
        with self.outermost(file) as opened:
            for text in self.readable("text", opened):
                yield from text.pieces
        if self.undecodable:
            raise self.undecodable[-1]
        self.unpacked_bytes += opened.meter.unpacked_bytes

    def plan(self, files: list[SourceFile], named: bool) -> FilePlan:
        """Which files and members to read, decided first: archives are scanned for the names of their members."""
        plan: FilePlan = []
        own = named_splits(file.name for file in files) if named else {}
        for file in files:
            names = self.member_names(file)
            members = [name for name in names if not name or may_be_read(name, self.config.format)]
            for name in sorted(set(names) - set(members)):
                reason = NOTE_REASON if is_note(name) else ARCHIVE_INSIDE if is_archive_name(name) else NO_TEXT
                self.leave_out(full_name(file, name), reason)
            if not members and any(map(is_archive_name, names)):
                raise CorpusError(f"{file.label}: has archives and no text; archives inside archives are not opened")
            inside = named_splits(members)
            plan.append((file, {name: own.get(file.name) or inside[name] or "text" for name in members}))
        roles = {full_name(file, name): role for file, wanted in plan for name, role in wanted.items()}
        if not roles:
            raise nothing_left(self.source, self.left_out)
        check_roles(self.source, roles)
        if "train" in roles.values():
            for name, role in roles.items():
                if role == "text":
                    self.leave_out(name, OTHER_SPLIT)
            plan = [(file, {name: role for name, role in wanted.items() if role != "text"}) for file, wanted in plan]
        return [(file, wanted) for file, wanted in plan if wanted]

    def member_names(self, file: SourceFile) -> list[str]:
        """Checked names of an archive's regular members; [""] for a file that is not an archive."""
        if suffix_of(file.name) in ZIP_DOCUMENTS:
            with self.outermost(file) as opened:
                if archive_kind(opened.head, opened.plain_name):
                    self.leave_out(file.name, OFFICE)
                    return []
        return [member for member, _ in self.open(file, ())]

    def open(self, file: SourceFile, wanted: Collection[str]) -> Iterator[tuple[str, OpenFile | None]]:
        """("", the file), or (name, member) for each member of an archive, None for one that is not wanted."""
        with self.outermost(file) as opened:
            kind = archive_kind(opened.head, opened.plain_name)
            if kind is None:
                yield "", opened
                self.unpacked_bytes += opened.meter.unpacked_bytes if wanted else 0
                return
            if kind == "zip" and not opened.seekable():
                raise CorpusError(f"{file.label}: is a compressed zip; decompress it once and give the zip")
            meter = Meter(opened.meter.packed_bytes, self.config, self.unpacked_bytes)
            for name, content in archive_members(opened, kind, file.label, meter, self.config, wanted):
                label = f"{file.label}: {printable(name)}"
                member = None if content is None else decompressed(content, name, label, meter)
                if member is not None and archive_kind(member.head, member.plain_name):
                    raise CorpusError(
                        f"{member.label}: is an archive inside an archive; unpack the outer one and give a folder"
                    )
                yield name, member
            self.unpacked_bytes += meter.unpacked_bytes if wanted else 0

    @contextlib.contextmanager
    def outermost(self, file: SourceFile) -> Iterator[OpenFile]:
        """The file's bytes, decompressed."""
        with contextlib.ExitStack() as stack:
            try:
                meter = Meter(file.path.stat().st_size, self.config, self.unpacked_bytes)
                raw = stack.enter_context(file.path.open("rb", buffering=0))
                opened = decompressed(raw, file.name, file.label, meter)
            except OSError as error:
                raise unreadable(file.label, error) from error
            yield opened

    def readable(self, role: str, opened: OpenFile) -> Iterator[Text]:
        """The text, or nothing if it cannot be read, which is noted."""
        self.text_count += 1
        try:
            yield self.text(role, opened)
        except EncodingError as error:
            self.refuse(error)
        except DocumentError as error:
            self.leave_out(self.name_of(opened.label), str(error))

    def text(self, role: str, opened: OpenFile) -> Text:
        """The text in its format. A document is read whole, here: DocumentError if it cannot be."""
        kind, label = self.format_of(opened), opened.label
        encoding = "utf-8" if kind == "parquet" else encoding_of(opened.head, self.config.encoding)
        if kind in DOCUMENT_KINDS:
            reader = document_reader()
            data = read_document(opened, reader.maximum_bytes(kind))
            if kind == "html" and encoding == self.config.encoding:  # without a byte-order mark
                encoding = reader.declared_charset(data[:4096]) or encoding
            markup = ""
            if not reader.is_binary(kind):
                markup = "".join(text_pieces(io.BytesIO(data), label, self.decoding._replace(encoding=encoding)))
            self.any_piece = True
            prose = reader.prose(kind, data, markup) if self.convert else markup or "…"
            return Text(role, label, iter([prose]), kind, "" if reader.is_binary(kind) else encoding)
        if kind == "text":
            pieces = text_pieces(opened, label, self.decoding)
        else:
            column = self.config.column or "text"
            pieces = column_texts(self.rows(opened, kind, [column]), label, column, self.decoding)
        return Text(role, label, self.decodable(pieces, label), kind, encoding)

    def rows(self, table: OpenFile, kind: str, columns: list[str], *, sparse: bool = False) -> Iterator[Row]:
        """The columns' cells of each row of a table. kind: csv, tsv, jsonl or parquet.

        sparse: objects of JSON lines may lack a column.
        """
        if kind == "parquet":
            with self.seekable(table) as file:
                yield from parquet_rows(file, table.label, columns, self.decoding, table.meter)
            return
        pieces = text_pieces(table, table.label, self.decoding)
        if kind == "jsonl":
            yield from json_rows(pieces, table.label, columns, sparse=sparse)
        else:
            yield from csv_rows(pieces, table.label, columns, kind)

    @contextlib.contextmanager
    def seekable(self, stream: OpenFile) -> Iterator[IO[bytes]]:
        """The stream, or a file with its bytes if it is not seekable: Parquet has its index at the end."""
        if stream.seekable():
            yield stream
            return
        with tempfile.TemporaryFile(dir=self.scratch) as file:
            shutil.copyfileobj(stream, file, 1 << 20)
            yield file

    def format_of(self, opened: OpenFile) -> str:
        """The configured format, else the one of the first bytes, else the one of the suffix."""
        if self.config.format != "auto":
            return self.config.format
        head = opened.head
        if head.startswith(PARQUET_MARK):
            return "parquet"
        if head.startswith(b"%PDF-"):
            return "pdf"
        suffix = suffix_of(opened.plain_name)
        if not suffix and head.lstrip().lower().startswith(HTML_MARKS):
            return "html"
        return TABLE_SUFFIXES.get(suffix) or DOCUMENT_SUFFIXES.get(suffix, "text")

    def decodable(self, pieces: Iterator[str], label: str) -> Iterator[str]:
        """The pieces up to one that cannot be read, which is noted: the other files are still looked at."""
        begun = False
        try:
            for piece in pieces:
                begun = self.any_piece = True
                yield piece
        except EncodingError as error:
            self.refuse(error, begun)
        except TableError as error:  # such as a package.json among texts
            if self.alone:
                raise
            self.refused = self.refused or error
            reason = str(error).partition("\n")[0].removeprefix(f"{label}: ").removesuffix(";")
            reason += "; what stands before it was read" if begun else ""
            self.left_out.append(LeftOut(name=self.name_of(label), reason=reason, read=begun))

    def refuse(self, error: EncodingError, begun: bool = False) -> None:
        """Leave out a file that is no text in any encoding, unless it is the only one or all have to be text.

        begun: what stands before the place was read.
        """
        if self.alone or self.config.undecodable != "guess":
            self.undecodable.append(error)
        else:
            reason = f"{error.place}; no encoding fits" + ("; what stands before it was read" if begun else "")
            self.left_out.append(LeftOut(name=self.name_of(error.label), reason=reason, read=begun))

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(name=printable(name), reason=reason))

    def note(self, label: str, what: str) -> None:
        """Remember the first change that reading made to a file."""
        name = self.name_of(label)
        if all(one.name != name for one in self.left_out):
            self.left_out.append(LeftOut(name=name, reason=what, read=True))

    def name_of(self, label: str) -> str:
        """The file, below the folder that holds them all."""
        return printable(label.removeprefix(self.above))


def read_document(opened: OpenFile, maximum_bytes: int) -> bytes:
    """All bytes of a document. DocumentError if they are too many."""
    try:
        data = opened.read(maximum_bytes + 1)
    except OSError as error:
        raise unreadable(opened.label, error) from error
    if len(data) > maximum_bytes:
        raise DocumentError(f"has more than {maximum_bytes:,} bytes; corpus.format=text reads it with its markup")
    return data


def full_name(file: SourceFile, member: str) -> str:
    return f"{file.name}: {member}" if member else file.name
