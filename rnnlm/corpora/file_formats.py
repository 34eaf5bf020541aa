"""Find and read text in files of any format, plain, compressed or archived, and assign it to splits."""

import contextlib
import io
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.archives import Member, archive_kind, tar_members, zip_members
from rnnlm.corpora.compression import ByteStream, Meter, Peeked, decompressed
from rnnlm.corpora.local_files import NO_TEXT, NOTE_REASON, nothing_left
from rnnlm.corpora.markup import MAXIMUM_BYTES, MAXIMUM_DOCUMENT_BYTES, DocumentError, declared_charset, document_prose
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
from rnnlm.corpora.table_files import PARQUET_MARK, TableError, csv_cells, json_cells, parquet_cells, text_column
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
ARCHIVE_INSIDE = "an archive inside an archive"
OTHER_SPLIT = "other names tell a split and this does not; rename it"


@dataclass(frozen=True)
class SourceFile:
    """A file on disk, its name in messages, and the name that tells its format."""

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


ZIP_DOCUMENTS = {".docx", ".odt", ".xlsx", ".ods", ".pptx", ".odp", ".epub", ".jar"}  # zip files that are no archives
OFFICE = "a document that is not read; save it as .txt, .html or .pdf"


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
        self.alone = True  # the source is one file
        self.above = ""  # what all labels begin with

    def texts(self, files: list[SourceFile], named: bool) -> Iterator[Text]:
        """Every text in the order of the files (members of a zip by name, of a tar as stored).

        named: the names of the files tell splits, as in a folder; the name of a single file does not. Documents that
        cannot be read are left out. CorpusError at the end for all texts in another encoding.
        """
        read = 0
        self.alone = len(files) == 1
        self.above = files[0].label.removesuffix(files[0].name) if files else ""
        for file, wanted in self.plan(files, named):
            if "" in wanted:
                with self.outermost(file) as (stream, name, meter):
                    for text in self.readable(file.name, wanted[""], stream, name, file.label, meter, file.path):
                        yield text
                        read += 1
            else:
                with self.members(file, wanted) as (found, meter):
                    for name, member in found:
                        if member is not None:
                            label = f"{file.label}: {printable(name)}"
                            stream, inner = self.member_stream(member, name, label, meter)
                            full = full_name(file, name)
                            for text in self.readable(full, wanted[name], stream, inner, label, meter):
                                yield text
                                read += 1
            self.unpacked_bytes += meter.unpacked_bytes
        if self.undecodable:
            raise encoding_errors(self.source, self.undecodable, self.text_count)
        if not read:
            raise nothing_left(self.source, self.left_out)

    def readable(
        self, full_name: str, role: str, stream: Peeked, name: str, label: str, meter: Meter, path: Path | None = None
    ) -> Iterator[Text]:
        """The text, or nothing if it cannot be read, which is noted."""
        self.text_count += 1
        try:
            yield self.text(role, stream, name, label, meter, path)
        except EncodingError as error:
            self.refuse(error)
        except DocumentError as error:
            self.left_out.append(LeftOut(name=full_name, reason=str(error)))

    def decodable(self, pieces: Iterator[str], label: str) -> Iterator[str]:
        """The pieces up to one that cannot be read, which is noted: the other files are still looked at."""
        begun = False
        try:
            for piece in pieces:
                begun = True
                yield piece
        except EncodingError as error:
            self.refuse(error)
        except TableError as error:  # such as a package.json among texts
            if self.alone:
                raise
            reason = str(error).partition("\n")[0].removeprefix(f"{label}: ").removesuffix(";")
            reason += "; what stands before it was read" if begun else ""
            self.left_out.append(LeftOut(name=self.name_of(label), reason=reason, read=begun))

    def refuse(self, error: EncodingError) -> None:
        """Leave out a file that is no text in any encoding, unless it is the only one or all have to be text."""
        if self.alone or self.config.undecodable != "guess":
            self.undecodable.append(error)
        else:
            self.left_out.append(LeftOut(name=self.name_of(error.label), reason=f"{error.place}; no encoding fits"))

    def note(self, label: str, what: str) -> None:
        """Remember the first thing in a file that was not read as it stands."""
        name = self.name_of(label)
        if all(one.name != name for one in self.left_out):
            self.left_out.append(LeftOut(name=name, reason=what, read=True))

    def name_of(self, label: str) -> str:
        """The file, below the folder that holds them all."""
        return printable(label.removeprefix(self.above))

    def plan(self, files: list[SourceFile], named: bool) -> FilePlan:
        """Which files and members to read, decided first: archives are scanned for the names of their members."""
        plan: FilePlan = []
        own = named_splits(file.name for file in files) if named else {}
        for file in files:
            names = self.member_names(file)
            members = [""] if names is None else [name for name in names if may_be_read(name, self.config.format)]
            for name in sorted(set(names or []) - set(members)):
                reason = NOTE_REASON if is_note(name) else ARCHIVE_INSIDE if is_archive_name(name) else NO_TEXT
                self.left_out.append(LeftOut(name=printable(full_name(file, name)), reason=reason))
            if names and not members and any(is_archive_name(name) for name in names):
                raise CorpusError(f"{file.label}: has archives and no text; archives inside archives are not opened")
            inside = named_splits(members)
            plan.append((file, {name: own.get(file.name) or inside[name] or "text" for name in members}))
        roles = {full_name(file, name): role for file, wanted in plan for name, role in wanted.items()}
        if not roles:
            raise nothing_left(self.source, self.left_out)
        check_roles(self.source, roles)
        if "train" in roles.values():
            self.left_out += [
                LeftOut(name=printable(name), reason=OTHER_SPLIT) for name, role in roles.items() if role == "text"
            ]
            plan = [(file, {name: role for name, role in wanted.items() if role != "text"}) for file, wanted in plan]
        return [(file, wanted) for file, wanted in plan if wanted]

    def member_names(self, file: SourceFile) -> list[str] | None:
        """Checked names of an archive's regular members; None if the file is not an archive."""
        with self.outermost(file) as (stream, name, _):
            if archive_kind(stream.head, name) is None:
                return None
            if suffix_of(name) in ZIP_DOCUMENTS:
                self.left_out.append(LeftOut(name=printable(file.name), reason=OFFICE))
                return []
        with self.members(file, {}) as (found, _):
            return [name for name, _ in found]

    @contextlib.contextmanager
    def outermost(self, file: SourceFile) -> Iterator[tuple[Peeked, str, Meter]]:
        """The file's bytes, decompressed."""
        with contextlib.ExitStack() as stack:
            try:
                meter = Meter(file.label, file.path.stat().st_size, self.config, self.unpacked_bytes)
                raw = stack.enter_context(file.path.open("rb"))
                stream, name = decompressed(Peeked(raw), file.name, file.label, meter)
            except OSError as error:
                raise unreadable(file.label, error) from error
            yield stream, name, meter

    @contextlib.contextmanager
    def members(self, file: SourceFile, wanted: dict[str, str]) -> Iterator[tuple[Iterator[Member], Meter]]:
        with self.outermost(file) as (stream, name, outer):
            meter = Meter(file.label, outer.packed_bytes, self.config, self.unpacked_bytes)
            if archive_kind(stream.head, name) == "tar":
                yield tar_members(stream, file.label, meter, self.config, wanted), meter
            elif outer.unpacked_bytes:
                raise CorpusError(f"{file.label}: is a compressed zip; decompress it once and give the zip")
            else:
                with file.path.open("rb") as raw:
                    yield zip_members(raw, file.label, meter, self.config, wanted), meter

    def pieces_of_file(self, file: SourceFile) -> Iterator[str]:
        """The text of a file that is not an archive."""
        with self.outermost(file) as (stream, name, meter):
            for text in self.readable(file.name, "text", stream, name, file.label, meter, file.path):
                yield from text.pieces
        if self.undecodable:
            raise self.undecodable[-1]
        self.unpacked_bytes += meter.unpacked_bytes

    def member_stream(self, member: ByteStream, name: str, label: str, meter: Meter) -> tuple[Peeked, str]:
        """The bytes and the name of an archive member, which may itself be compressed."""
        stream, name = decompressed(Peeked(member), name, label, meter)
        if archive_kind(stream.head, name):
            raise CorpusError(f"{label}: is an archive inside an archive; unpack the outer one and give a folder")
        return stream, name

    def text(self, role: str, stream: Peeked, name: str, label: str, meter: Meter, path: Path | None = None) -> Text:
        """The stream's text in its format. path: the file that holds the stream, if it is not in an archive.

        A document is read whole, here: DocumentError if it cannot be.
        """
        kind = self.format_of(stream.head, name)
        if kind in DOCUMENT_KINDS:
            return self.document(role, stream, kind, label)
        if kind == "parquet" and path is not None and not meter.unpacked_bytes:
            pieces = parquet_cells(path, label, text_column(self.config), self.decoding, meter)
        else:
            pieces = self.formatted(stream, kind, label, meter)
        encoding = "utf-8" if kind == "parquet" else encoding_of(stream.head, self.config.encoding)
        return Text(role, label, self.decodable(pieces, label), kind, encoding)

    def document(self, role: str, stream: Peeked, kind: str, label: str) -> Text:
        """The prose of a document."""
        limit = MAXIMUM_BYTES.get(kind, MAXIMUM_DOCUMENT_BYTES)
        data = b""
        while len(data) <= limit and (piece := read_some(stream, limit + 1 - len(data), label)):
            data += piece
        if len(data) > limit:
            raise DocumentError(f"has more than {limit:,} bytes; corpus.format=text reads it with its markup")
        encoding = encoding_of(data[:4], self.config.encoding)
        if kind == "html" and encoding == "utf-8":
            encoding = declared_charset(data[:4096]) or encoding
        text = ""
        if kind != "pdf":
            text = "".join(text_pieces(io.BytesIO(data), label, self.decoding._replace(encoding=encoding)))
        prose = document_prose(kind, data, text) if self.convert else text or "…"
        return Text(role, label, iter([prose]), kind, "" if kind == "pdf" else encoding)

    def formatted(self, stream: Peeked, kind: str, label: str, meter: Meter) -> Iterator[str]:
        column = text_column(self.config)
        if kind == "parquet":
            with self.spooled(stream) as path:
                yield from parquet_cells(path, label, column, self.decoding, meter)
            return
        pieces = text_pieces(stream, label, self.decoding)
        if kind == "jsonl":
            yield from json_cells(pieces, label, column, self.decoding)
        elif kind in ("csv", "tsv"):
            yield from csv_cells(pieces, label, column, kind, self.decoding)
        else:
            yield from pieces

    @contextlib.contextmanager
    def spooled(self, stream: Peeked) -> Iterator[Path]:
        """A file with the stream's bytes: Parquet has its index at the end."""
        with tempfile.NamedTemporaryFile(dir=self.scratch, suffix=".parquet") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
            file.flush()
            yield Path(file.name)

    def format_of(self, head: bytes, name: str) -> str:
        """The configured format, else the one of the first bytes, else the one of the suffix."""
        if self.config.format != "auto":
            return self.config.format
        if head.startswith(PARQUET_MARK):
            return "parquet"
        if head.startswith(b"%PDF-"):
            return "pdf"
        suffix = suffix_of(name)
        if not suffix and head.lstrip().lower().startswith(HTML_MARKS):
            return "html"
        return TABLE_SUFFIXES.get(suffix) or DOCUMENT_SUFFIXES.get(suffix, "text")


def read_some(stream: Peeked, size: int, label: str) -> bytes:
    try:
        return stream.read(size)
    except OSError as error:
        raise unreadable(label, error) from error


def full_name(file: SourceFile, member: str) -> str:
    return f"{file.name}: {member}" if member else file.name
