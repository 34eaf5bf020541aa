"""Find and read text in files of any format, plain, compressed or archived, and assign it to splits."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.archives import Member, archive_kind, tar_members, zip_members
from rnnlm.corpora.compression import ByteStream, Meter, Peeked, decompressed
from rnnlm.corpora.split_names import (
    TABLE_SUFFIXES,
    check_roles,
    is_archive_name,
    is_note,
    may_be_text,
    shortened,
    split_named,
    suffix_of,
    warn_of_omissions,
)
from rnnlm.corpora.table_files import PARQUET_MARK, csv_cells, json_cells, parquet_cells, text_column
from rnnlm.corpora.text_encoding import printable, text_pieces, unreadable
from rnnlm.errors import CorpusError


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
    rows: bool  # each piece is a row of a table


NO_TEXT = "not text, judging by the name; corpus.format=text reads any"
FilePlan = list[tuple[SourceFile, dict[str, str]]]  # each file and its wanted members → roles; "": the file itself


class Opener:
    """Reads the files of one source and counts their unpacked bytes."""

    def __init__(self, source: str, config: CorpusConfig, scratch: Path, *, quiet: bool = False) -> None:
        """quiet: do not warn of files that are not read."""
        self.source, self.config, self.scratch, self.quiet = source, config, scratch, quiet
        self.unpacked_bytes = 0

    def texts(self, files: list[SourceFile], named: bool) -> Iterator[Text]:
        """Every text in the order of the files (members of a zip by name, of a tar as stored).

        named: the names of the files tell splits, as in a folder; the name of a single file does not.
        """
        for file, wanted in self.plan(files, named):
            if "" in wanted:
                with self.outermost(file) as (stream, name, meter):
                    yield self.text(wanted[""], stream, name, file.label, meter, file.path)
            else:
                with self.members(file, wanted) as (found, meter):
                    for name, member in found:
                        if member is not None:
                            label = f"{file.label}: {printable(name)}"
                            yield self.text_of_member(wanted[name], member, name, label, meter)
            self.unpacked_bytes += meter.unpacked_bytes

    def plan(self, files: list[SourceFile], named: bool) -> FilePlan:
        """Which files and members to read, decided first: archives are scanned for the names of their members."""
        plan: FilePlan = []
        skipped: list[str] = []
        for file in files:
            own = split_named(file.name) if named else None
            names = self.member_names(file)
            members = [""] if names is None else [name for name in names if may_be_text(name, self.config.format)]
            unread = sorted(set(names or []) - set(members))
            skipped += [full_name(file, name) for name in unread if not is_note(name)]
            if names and not members and any(is_archive_name(name) for name in names):
                raise CorpusError(f"{file.label}: has archives and no text; archives inside archives are not opened")
            plan.append((file, {name: own or (name and split_named(name)) or "text" for name in members}))
        roles = {full_name(file, name): role for file, wanted in plan for name, role in wanted.items()}
        if not roles:
            raise nothing_left(self.source, skipped)
        check_roles(self.source, roles)
        if not self.quiet:
            warn_of_omissions(self.source, skipped, NO_TEXT)
        if "train" in roles.values():
            others = [name for name, role in roles.items() if role == "text"]
            if not self.quiet:
                warn_of_omissions(self.source, others, "other names name a split and these do not; rename them")
            plan = [(file, {name: role for name, role in wanted.items() if role != "text"}) for file, wanted in plan]
        return [(file, wanted) for file, wanted in plan if wanted]

    def member_names(self, file: SourceFile) -> list[str] | None:
        """Checked names of an archive's regular members; None if the file is not an archive."""
        with self.outermost(file) as (stream, name, _):
            if archive_kind(stream.head, name) is None:
                return None
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
            yield from self.text("text", stream, name, file.label, meter, file.path).pieces
        self.unpacked_bytes += meter.unpacked_bytes

    def text_of_member(self, role: str, member: ByteStream, name: str, label: str, meter: Meter) -> Text:
        """The text of an archive member, which may itself be compressed."""
        stream, name = decompressed(Peeked(member), name, label, meter)
        if archive_kind(stream.head, name):
            raise CorpusError(f"{label}: is an archive inside an archive; unpack the outer one and give a folder")
        return self.text(role, stream, name, label, meter)

    def text(self, role: str, stream: Peeked, name: str, label: str, meter: Meter, path: Path | None = None) -> Text:
        """The stream's text in its format. path: the file that holds the stream, if it is not in an archive."""
        kind = self.format_of(stream.head, name)
        if kind == "parquet" and path is not None and not meter.unpacked_bytes:
            pieces = parquet_cells(path, label, self.config, meter)
        else:
            pieces = self.formatted(stream, kind, label, meter)
        return Text(role, label, pieces, rows=kind != "text")

    def formatted(self, stream: Peeked, kind: str, label: str, meter: Meter) -> Iterator[str]:
        if kind == "parquet":  # its index is at the end, so it must be in a file
            with tempfile.NamedTemporaryFile(dir=self.scratch, suffix=".parquet") as spooled:
                shutil.copyfileobj(stream, spooled, 1 << 20)
                spooled.flush()
                yield from parquet_cells(Path(spooled.name), label, self.config, meter)
            return
        pieces = text_pieces(stream, label, self.config.encoding, self.config.undecodable)
        column = text_column(self.config)
        if kind == "jsonl":
            yield from json_cells(pieces, label, column)
        elif kind in ("csv", "tsv"):
            yield from csv_cells(pieces, label, column, kind)
        else:
            yield from pieces

    def format_of(self, head: bytes, name: str) -> str:
        """The configured format, else the one of the first bytes, else the one of the suffix."""
        if self.config.format != "auto":
            return self.config.format
        if head.startswith(PARQUET_MARK):
            return "parquet"
        return TABLE_SUFFIXES.get(suffix_of(name), "text")


def full_name(file: SourceFile, member: str) -> str:
    return f"{file.name}: {member}" if member else file.name


def nothing_left(source: str, found: list[str]) -> CorpusError:
    there = f"it has {shortened(found)}" if found else "it has no files"
    return CorpusError(
        f"{source}: has no text, judging by the names of its files; {there};\n"
        "expected .txt, .csv, .tsv, .jsonl or .parquet (also compressed), or set corpus.format=text to read any file"
    )
