"""The forms in which the source of a corpus is named: a path, a glob, an address, hf:NAME or a catalogue name."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.errors import CorpusError
from rnnlm.storage.home import expanded
from rnnlm.storage.redaction import redacted

if TYPE_CHECKING:
    from rnnlm.config import PipelineConfig

HUB_PREFIX = "hf:"
WILDCARDS = set("*?[")  # The wildcards of a glob.


@dataclass(frozen=True)
class HubName:
    """The two parts of a data set's name, which follow `hf:`."""

    path: str  # The data set's owner/name, or a local folder.
    configuration: str | None

    @property
    def folder(self) -> Path | None:
        path = expanded(self.path)
        return path if self.path and path.is_dir() else None


def hub_name(source: str) -> HubName:
    """Parse 'hf:owner/name:config'. Raise CorpusError if the source has another form and is not a folder."""
    rest = source.removeprefix(HUB_PREFIX)
    if expanded(rest).is_file():
        raise CorpusError(
            f"{source}: is a file; give the file without {HUB_PREFIX}, or the folder that contains the file"
        )
    if rest and expanded(rest).is_dir():
        return HubName(rest, None)
    path, _, configuration = rest.partition(":")
    name = HubName(path, configuration or None)
    if name.folder is None and (path.startswith((".", "/", "~")) or path.count("/") > 1 or not path):
        raise CorpusError(
            f"{source}: there is no such folder;\ngive a data set as hf:OWNER/NAME[:CONFIG], or a folder as hf:FOLDER"
        )
    return name


def absolute_source(source: str) -> str:
    """Return a path as an absolute path without symbolic links. Corpus names and addresses are returned unchanged."""
    if not source or source in CATALOGUE or is_url(source):
        return source
    if source.startswith(HUB_PREFIX):
        folder = hub_name(source).folder
        return f"{HUB_PREFIX}{folder.resolve()}" if folder else source
    return str(expanded(source).resolve())


def as_stored(config: "PipelineConfig") -> "PipelineConfig":
    """Return a configuration with an absolute source, as it is stored in files and in the registry.

    A relative path would name another text if the configuration were read in another folder.
    """
    corpus = config.corpus.model_copy(update={"source": absolute_source(config.corpus.source)})
    return config.model_copy(update={"corpus": corpus})


def is_url(source: str) -> bool:
    """Return True for an http or https address. Raise CorpusError for another scheme."""
    scheme, separator, _ = source.partition("://")
    if not separator:
        return False
    if scheme.lower() not in ("http", "https"):
        raise CorpusError(
            f"{redacted(source)}: expected an http or https URL, got {scheme}://; "
            "download the text and give the path of the file"
        )
    try:
        host = urlsplit(source).hostname
    except ValueError:
        host = None
    if not host:
        raise CorpusError(f"{redacted(source)}: is not a valid address; expected http(s)://host/path")
    return True
