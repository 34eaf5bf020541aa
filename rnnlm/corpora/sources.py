"""The places that text comes from: what tells one state of them from another, and how their text is written."""

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from rnnlm.config import CorpusConfig
from rnnlm.corpora import http_download
from rnnlm.corpora.catalogue import CATALOGUE, Entry
from rnnlm.corpora.cleaning import without_gutenberg_frame
from rnnlm.corpora.file_formats import NO_TEXT, Opener, SourceFile
from rnnlm.corpora.http_download import Version
from rnnlm.corpora.hub import HUB_PREFIX, find_revision, hub_name, write_hub
from rnnlm.corpora.local_files import (
    WILDCARDS,
    digest_of_file,
    files_in_folder,
    files_of_glob,
    states,
    unreadable,
)
from rnnlm.corpora.split_names import is_note, warn_of_omissions
from rnnlm.corpora.text_writer import CorpusWriter
from rnnlm.errors import CorpusError, FetchError
from rnnlm.home import Home, digest_of
from rnnlm.redaction import redacted

Metadata = dict[str, Any]


class UnchangedError(Exception):
    """Not a failure: the server or hub says that what it has is the version that we have."""


class UnavailableError(FetchError):
    """The server or hub did not give the text; what was obtained before can still be used."""


@dataclass(frozen=True)
class Written:
    """What is to be remembered of a text that was written."""

    facts: Metadata = field(default_factory=dict)
    version: Metadata | None = None  # tells one state of a remote text from another


class Source(Protocol):
    """A place that text comes from."""

    @property
    def remote(self) -> bool:
        """True if the text lies elsewhere, where it may change under the same key."""

    def key(self) -> dict[str, Any]:
        """What the text depends on, the settings aside; it differs where the text may. It holds no secret."""

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
        """Write the text. UnchangedError if the version elsewhere is the known one."""


@dataclass(frozen=True)
class Installed:
    """A corpus that this installation can write by itself."""

    entry: Entry
    remote = False

    def key(self) -> dict[str, Any]:
        assert self.entry.versions
        return {"catalogue": self.entry.name, "versions": self.entry.versions()}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
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
        return Written(facts)


@dataclass(frozen=True)
class Downloaded:
    """One file from an http(s) address."""

    url: str
    gutenberg: bool = False
    remote = True

    def key(self) -> dict[str, Any]:
        return {"url": redacted(self.url), "url_sha256": digest_of(self.url), "gutenberg": self.gutenberg}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
        label = redacted(self.url)
        name = PurePosixPath(unquote(urlsplit(self.url).path)).name
        path = writer.folder / "downloaded"
        version = self.download(home, config, path, Version(**known) if known else None)
        for text in Opener(label, config, writer.folder).texts([SourceFile(path, label, name)], named=False):
            pieces = without_gutenberg_frame(text.pieces, label) if self.gutenberg else text.pieces
            writer.append(text.role, pieces, text.label, rows=text.rows and not self.gutenberg)
        return Written(version=vars(version))

    def download(self, home: Home, config: CorpusConfig, path: Path, known: Version | None) -> Version:
        downloads = home.corpora / "downloads"
        home.make(downloads)
        policy = replace(
            http_download.POLICY,
            maximum_bytes=config.maximum_download_bytes,
            maximum_seconds=config.maximum_download_seconds,
        )
        try:
            with home.lock(f"download-{digest_of(self.url)[:16]}"):
                version = http_download.fetch(self.url, path, downloads, config.sha256, policy, known)
        except CorpusError as error:
            if known is None:
                raise
            raise UnavailableError(str(error)) from error
        if version is None:
            raise UnchangedError
        return version


@dataclass(frozen=True)
class OnHub:
    """A data set of the Hugging Face hub, or a folder that `datasets` reads."""

    source: str

    @property
    def remote(self) -> bool:
        return hub_name(self.source).folder is None

    def key(self) -> dict[str, Any]:
        folder = hub_name(self.source).folder
        if folder is None:
            return {"hub": self.source}
        return {"hub": self.source, "files": states(sorted(path for path in folder.rglob("*") if path.is_file()))}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
        version = None
        if self.remote:
            try:
                version = {"revision": find_revision(self.source)}
            except CorpusError as error:
                if known is None:
                    raise
                raise UnavailableError(str(error)) from error
            if version == known:
                raise UnchangedError
        write_hub(self.source, config, writer, version["revision"] if version else None)
        return Written(version=version)


@dataclass(frozen=True)
class OnDisk:
    """A file; or those of a folder or glob, whose names tell splits."""

    source: str
    paths: tuple[Path, ...]
    named: bool
    remote = False

    def key(self) -> dict[str, Any]:
        return {"named": self.named, "files": states(self.paths)}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
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
        return Written()


def find_source(source: str, format: str) -> Source:
    """What the source names. CorpusError where it names nothing."""
    entry = CATALOGUE.get(source)
    if entry and entry.write:
        return Installed(entry)
    location = entry.location if entry else source
    if location.startswith(HUB_PREFIX):
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
        raise CorpusError(
            f"{redacted(source)}: expected an http or https URL, got {scheme}://; download it and give the file"
        )
    try:
        host = urlsplit(source).hostname
    except ValueError:
        host = None
    if not host:
        raise CorpusError(f"{redacted(source)}: is no valid address; expected http(s)://host/path")
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
