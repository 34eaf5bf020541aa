"""The places that text comes from: what tells one state of them from another, and how their text is written."""

import glob
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from rnnlm.config import CorpusConfig
from rnnlm.corpora.catalogue import CATALOGUE, Entry
from rnnlm.corpora.cleaning import without_gutenberg_frame
from rnnlm.corpora.fetching import fetch
from rnnlm.corpora.hub import PREFIX, hub_name, write_hub
from rnnlm.corpora.opening import NO_TEXT, Opener, SourceFile, nothing_left
from rnnlm.corpora.roles import is_archive_name, is_note, may_be_text, warn_of_omissions
from rnnlm.corpora.writing import CorpusWriter
from rnnlm.errors import CorpusError
from rnnlm.home import Home, digest_of, file_digest

WILDCARDS = set("*?[")


class Origin(Protocol):
    """A place that text comes from."""

    def key(self) -> dict[str, Any]:
        """What the text depends on, the settings aside; it differs where the text may."""

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter) -> dict[str, Any]:
        """Write the text; facts about it."""


@dataclass(frozen=True)
class Written:
    """A corpus that this installation can write by itself."""

    entry: Entry

    def key(self) -> dict[str, Any]:
        assert self.entry.versions
        return {"catalogue": self.entry.name, "versions": self.entry.versions()}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter) -> dict[str, Any]:
        assert self.entry.write
        path = writer.folder / "written"
        facts = self.entry.write(path)
        files = [SourceFile(path, self.entry.name, "text.txt")]
        if path.is_dir():
            files = [
                SourceFile(split, f"{self.entry.name}: {split.name}", split.name) for split in sorted(path.iterdir())
            ]
        for text in Opener(self.entry.name, CorpusConfig(), writer.folder).texts(files, named=path.is_dir()):
            writer.append(text.role, text.pieces, text.label, rows=text.rows)
        return facts


@dataclass(frozen=True)
class Downloaded:
    """One file from an http(s) address."""

    url: str
    gutenberg: bool = False

    def key(self) -> dict[str, Any]:
        return {"url": self.url, "gutenberg": self.gutenberg}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter) -> dict[str, Any]:
        name = PurePosixPath(unquote(urlsplit(self.url).path)).name
        path, downloads = writer.folder / "downloaded", home.corpora / "downloads"
        home.make(downloads)
        with home.lock(f"download-{digest_of(self.url)[:16]}"):
            fetch(self.url, path, downloads, config.sha256)
        for text in Opener(self.url, config, writer.folder).texts([SourceFile(path, self.url, name)], named=False):
            pieces = without_gutenberg_frame(text.pieces, self.url) if self.gutenberg else text.pieces
            writer.append(text.role, pieces, text.label, rows=text.rows and not self.gutenberg)
        return {}


@dataclass(frozen=True)
class OnHub:
    """A data set of the Hugging Face hub, or a folder that `datasets` reads."""

    source: str

    def key(self) -> dict[str, Any]:
        folder = hub_name(self.source).folder
        if folder is None:
            return {"hub": self.source}
        return {"hub": self.source, "files": states(sorted(path for path in folder.rglob("*") if path.is_file()))}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter) -> dict[str, Any]:
        write_hub(self.source, config, writer)
        return {}


@dataclass(frozen=True)
class OnDisk:
    """A file; or those of a folder or glob, whose names tell splits."""

    source: str
    paths: tuple[Path, ...]
    named: bool

    def key(self) -> dict[str, Any]:
        return {"named": self.named, "files": states(self.paths)}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter) -> dict[str, Any]:
        if config.sha256 and (got := digest_of_file(self.paths[0])) != config.sha256:
            raise CorpusError(
                f"{self.source}: sha256 {got[:12]}, expected {config.sha256[:12]} (corpus.sha256); check the file"
            )
        if Path(self.source).expanduser().is_dir():
            there = (path for path in Path(self.source).expanduser().iterdir() if path.is_file())
            others = sorted(path.name for path in there if path not in self.paths and not is_note(path.name))
            warn_of_omissions(self.source, others, NO_TEXT)
        files = [SourceFile(path, str(path), path.name) for path in self.paths]
        for text in Opener(self.source, config, writer.folder).texts(files, self.named):
            writer.append(text.role, text.pieces, text.label, rows=text.rows)
        return {}


def states(paths: list[Path] | tuple[Path, ...]) -> list[list[Any]]:
    """Path, size and time of change of each file: what tells, without reading it, that it is as it was."""
    try:
        found = [(path.resolve(), path.stat()) for path in paths]
    except OSError as error:
        raise unreadable(str(error.filename), error) from error
    return [[str(path), state.st_size, state.st_mtime_ns] for path, state in found]


def digest_of_file(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as error:
        raise unreadable(str(path), error) from error


def unreadable(label: str, error: Exception) -> CorpusError:
    reason = getattr(error, "strerror", None) or error
    return CorpusError(f"{label[:200]}: cannot be read ({reason}); check its path and permissions")


def origin_of(source: str, format: str) -> Origin:
    """What the source names. CorpusError where it names nothing."""
    entry = CATALOGUE.get(source)
    if entry and entry.write:
        return Written(entry)
    location = entry.location if entry else source
    if location.startswith(PREFIX):
        hub_name(location)
        return OnHub(location)
    if is_url(location):
        return Downloaded(location, gutenberg=bool(entry and entry.gutenberg))
    return on_disk(location, format)


def is_url(source: str) -> bool:
    """True for http and https; CorpusError for another scheme."""
    scheme, separator, _ = source.partition("://")
    if not separator:
        return False
    if scheme.lower() not in ("http", "https"):
        raise CorpusError(f"{source}: expected an http or https URL, got {scheme}://; download it and give the file")
    try:
        host = urlsplit(source).hostname
    except ValueError:
        host = None
    if not host:
        raise CorpusError(f"{source}: is no valid address; expected http(s)://host/path")
    return True


def on_disk(source: str, format: str) -> OnDisk:
    """A file, the texts directly in a folder, or what a glob such as data/**/*.txt.gz matches, in order of name."""
    path = Path(source).expanduser()
    try:
        if path.is_file():
            return OnDisk(source, (path,), named=False)
        if path.is_dir():
            return OnDisk(source, files_in_folder(source, path, format), named=True)
        exists = path.exists()
    except (OSError, ValueError) as error:  # a name too long, a NUL in it, a folder that may not be entered
        raise unreadable(source, error) from error
    if exists:
        raise CorpusError(f"{source}: is neither a file nor a folder; write what it gives to a file and give that")
    if WILDCARDS & set(source):
        return OnDisk(source, files_of_glob(source), named=True)
    raise CorpusError(
        f"{source}: no such file or folder, and no corpus of that name;\n"
        f"give a path, a glob, an http(s) URL, hf:OWNER/NAME, or one of: {', '.join(CATALOGUE)}"
    )


def files_in_folder(source: str, folder: Path, format: str = "auto") -> tuple[Path, ...]:
    """The texts and tables directly in a folder, in order of name."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    texts = tuple(path for path in files if may_be_text(path.name, format))
    if not texts and any(is_archive_name(path.name) for path in files):
        raise CorpusError(f"{source}: holds archives and no text; to have them opened give a glob, such as {source}/*")
    if not texts:
        raise nothing_left(source, [path.name for path in files])
    return texts


def files_of_glob(pattern: str) -> tuple[Path, ...]:
    """Matched files; a pattern without a suffix, such as data/**, passes over what is no text by its name."""
    # glob, not Path.glob: it takes absolute patterns and leaves hidden files out, as a shell does
    found = sorted(Path(name) for name in glob.glob(str(Path(pattern).expanduser()), recursive=True))  # noqa: PTH207
    files = [path for path in found if path.is_file()]
    if not PurePosixPath(pattern).suffix:
        files = [path for path in files if may_be_text(path.name) or is_archive_name(path.name)]
    if not files:
        raise CorpusError(f"{pattern}: no file matches; check the pattern (quoted, so that the shell leaves it alone)")
    return tuple(files)
