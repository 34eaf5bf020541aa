"""Sources of text. A class for each kind of source returns a key for the text and writes the text to a corpus."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from rnnlm.config import CorpusConfig
from rnnlm.corpora import http_download
from rnnlm.corpora.catalogue import CATALOGUE, Entry
from rnnlm.corpora.cleaning import without_gutenberg_frame
from rnnlm.corpora.document_formats import library_versions
from rnnlm.corpora.file_formats import TextReader
from rnnlm.corpora.hub import find_revision, write_hub
from rnnlm.corpora.kept_download import ResourceVersion
from rnnlm.corpora.local_files import digest_of_file, files_of_glob, states, texts_below
from rnnlm.corpora.printable_names import unreadable
from rnnlm.corpora.source_files import SourceFile
from rnnlm.corpora.source_names import HUB_PREFIX, WILDCARDS, hub_name, is_url
from rnnlm.corpora.text_encoding import Decoding, text_pieces
from rnnlm.corpora.text_writer import CorpusWriter
from rnnlm.errors import CorpusError, FetchError
from rnnlm.storage.home import Home, digest_of, expanded
from rnnlm.storage.records import LeftOut
from rnnlm.storage.redaction import redacted

Metadata = dict[str, Any]


class UnchangedError(Exception):
    """The exception that is raised if the server or hub still has the stored version. It is not a failure."""


class UnavailableError(FetchError):
    """The error that is raised if the server or hub does not provide the text, but a stored copy can be used."""


@contextmanager
def fallback_allowed(known: object) -> Iterator[None]:
    """Raise UnavailableError in place of CorpusError if the stored copy of version `known` can be used."""
    try:
        yield
    except CorpusError as error:
        if known is None:
            raise
        raise UnavailableError(str(error)) from error


@dataclass(frozen=True)
class Written:
    """The result of writing a text."""

    facts: Metadata = field(default_factory=dict)
    version: Metadata | None = None  # The version of a remote text, or None for other texts.
    left_out: tuple[LeftOut, ...] = ()  # The files that could not be read.


@dataclass(frozen=True)
class Installed:
    """A corpus that rnnlm generates, for example from the installed Python packages."""

    entry: Entry
    remote = False  # Whether the text may change although its key stays the same.
    left_out = ()  # The files that are not opened, with the reason for each.

    def key(self) -> dict[str, Any]:
        """Return everything on which the text depends, except the settings. The result contains no secrets."""
        assert self.entry.versions
        return {"catalogue": self.entry.name, "versions": self.entry.versions()}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
        """Write the text. Raise UnchangedError if the remote text still has version `known`."""
        assert self.entry.write
        path = writer.folder / "written"
        facts = self.entry.write(path)
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            with file.open("rb") as stream:
                pieces = text_pieces(stream, self.entry.name, Decoding())
                writer.append(file.stem if path.is_dir() else "text", pieces, self.entry.name)
        return Written(facts)


@dataclass(frozen=True)
class Downloaded:
    """A file at an http(s) address."""

    url: str
    gutenberg: bool = False
    remote = True
    left_out = ()

    def key(self) -> dict[str, Any]:
        libraries = library_versions([PurePosixPath(urlsplit(self.url).path).name])
        found = {"url": redacted(self.url), "url_sha256": digest_of(self.url), "gutenberg": self.gutenberg}
        return found | ({"libraries": libraries} if libraries else {})

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
        label = redacted(self.url)
        name = PurePosixPath(unquote(urlsplit(self.url).path)).name
        path = writer.folder / "downloaded"
        version = self.download(home, config, path, ResourceVersion(**known) if known else None)
        reader = TextReader(label, [SourceFile(path, label, name)], config, writer.folder)
        for text in reader.texts():
            pieces = without_gutenberg_frame(text.pieces, label) if self.gutenberg else text.pieces
            writer.append(text.role, pieces, text.label, rows=text.rows and not self.gutenberg)
        return Written(version=vars(version), left_out=tuple(reader.report.left_out))

    def download(self, home: Home, config: CorpusConfig, path: Path, known: ResourceVersion | None) -> ResourceVersion:
        downloads = home.corpora / "downloads"
        home.make(downloads)
        policy = replace(
            http_download.POLICY,
            maximum_bytes=config.maximum_download_bytes,
            maximum_seconds=config.maximum_download_seconds,
        )
        with fallback_allowed(known), home.lock(f"download-{digest_of(self.url)[:16]}"):
            version = http_download.fetch(self.url, path, downloads, config.sha256, policy, known)
        if version is None:
            raise UnchangedError
        return version


@dataclass(frozen=True)
class OnHub:
    """A data set of the Hugging Face hub, or a folder that the `datasets` library reads."""

    source: str
    left_out = ()

    @property
    def remote(self) -> bool:
        return hub_name(self.source).folder is None

    def key(self) -> dict[str, Any]:
        folder = hub_name(self.source).folder
        if folder is None:
            return {"hub": self.source}
        return {"hub": self.source, "files": states(sorted(path for path in folder.rglob("*") if path.is_file()))}

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
        version, kept = None, None
        if self.remote:
            with fallback_allowed(known):
                version = {"revision": find_revision(self.source)}
            if version == known:
                raise UnchangedError
            home.make(home.corpora / "downloads")
            name = digest_of([self.source, config.column or "text", version])[:16]
            kept = home.corpora / "downloads" / f"{name}.parquet"
        write_hub(self.source, config, writer, version["revision"] if version else None, kept)
        return Written(version=version)


@dataclass(frozen=True)
class OnDisk:
    """A file, or the files of a folder or glob. The names of several files may determine their splits."""

    source: str
    paths: tuple[Path, ...]
    named: bool
    left_out: tuple[LeftOut, ...] = ()
    remote = False

    def key(self) -> dict[str, Any]:
        libraries = library_versions(path.name for path in self.paths)
        return {"named": self.named, "files": states(self.paths)} | ({"libraries": libraries} if libraries else {})

    @property
    def files(self) -> list[SourceFile]:
        """The files, named by their paths relative to the folder that contains all of them."""
        above = Path(os.path.commonpath([path.parent for path in self.paths]))
        return [SourceFile(path, str(path), path.relative_to(above).as_posix()) for path in self.paths]

    def write(self, home: Home, config: CorpusConfig, writer: CorpusWriter, known: Metadata | None) -> Written:
        if config.sha256 and (got := digest_of_file(self.paths[0])) != config.sha256:
            raise CorpusError(
                f"{self.source}: sha256 {got[:12]}, expected {config.sha256[:12]} (corpus.sha256); check the file"
            )
        reader = TextReader(self.source, self.files, config, writer.folder, named=self.named)
        for text in reader.texts():
            writer.append(text.role, text.pieces, text.label, rows=text.rows)
        return Written(left_out=tuple(reader.report.left_out))


Source = Installed | Downloaded | OnHub | OnDisk


def find_source(source: str, format: str) -> Source:
    """Return the source with a name, path or address. Raise CorpusError if there is none."""
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


def on_disk(source: str, format: str) -> OnDisk:
    """Return the source of a file, of the texts in a folder, or of the matches of a glob such as data/**/*.txt.gz.

    Files are sorted by name.
    """
    path = expanded(source)
    try:
        if path.is_file():
            return OnDisk(source, (path,), named=False)
        found = texts_below(source, path, format) if path.is_dir() else None
        exists = path.exists()
    # Such a path is too long, contains a NUL, or is in a folder that may not be entered.
    except (OSError, ValueError) as error:
        raise unreadable(source, error) from error
    if found is None and exists:
        raise CorpusError(
            f"{source}: is neither a file nor a folder; write its content to a file and give the path of this file"
        )
    if found is None and WILDCARDS & set(source):
        found = files_of_glob(source, format)
    if found is None:
        raise CorpusError(
            f"{source}: no such file or folder, and no corpus of that name;\n"
            f"give a path, a glob, an http(s) URL, hf:OWNER/NAME, or one of: {', '.join(CATALOGUE)}"
        )
    return OnDisk(source, found.paths, named=True, left_out=found.left_out)
