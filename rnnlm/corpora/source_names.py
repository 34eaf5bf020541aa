"""The names of sources, their absolute form, and the names of corpora that are derived from them."""

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from slugify import slugify

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.corpora.split_names import COMPRESSED
from rnnlm.errors import CorpusError
from rnnlm.storage.home import digest_of, expanded
from rnnlm.storage.redaction import redacted

HUB_PREFIX = "hf:"
WILDCARDS = set("*?[")  # The wildcards of a glob.
LONGEST_CORPUS_NAME = 63  # The maximum length of a corpus's name.
PLAIN_STEM = re.compile(r"[A-Za-z0-9 ._-]*")  # A pattern for names that become a corpus's name without a digest.


@dataclass(frozen=True)
class HubName:
    """The parts of a name after `hf:`."""

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
        raise CorpusError(f"{source}: is a file; give it without {HUB_PREFIX}, or its folder")
    if rest and expanded(rest).is_dir():
        return HubName(rest, None)
    path, _, configuration = rest.partition(":")
    name = HubName(path, configuration or None)
    if name.folder is None and (path.startswith((".", "/", "~")) or path.count("/") > 1 or not path):
        raise CorpusError(f"{source}: no such folder; expected hf:owner/name[:config] or hf: and a folder")
    return name


def absolute_source(source: str) -> str:
    """Return a path as an absolute path without symbolic links. Corpus names and addresses are returned unchanged."""
    if not source or source in CATALOGUE or is_url(source):
        return source
    if source.startswith(HUB_PREFIX):
        folder = hub_name(source).folder
        return f"{HUB_PREFIX}{folder.resolve()}" if folder else source
    return str(expanded(source).resolve())


def as_stored(config: PipelineConfig) -> PipelineConfig:
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
            f"{redacted(source)}: expected an http or https URL, got {scheme}://; download it and give the file"
        )
    try:
        host = urlsplit(source).hostname
    except ValueError:
        host = None
    if not host:
        raise CorpusError(f"{redacted(source)}: is not a valid address; expected http(s)://host/path")
    return True


def corpus_name(config: CorpusConfig) -> str:
    """Return the configured name, or a name derived from the source, such as "my-text" for 'data/My Text.txt'."""
    if config.name:
        return config.name
    source = config.source
    if source in CATALOGUE:
        stem = source
    elif source.startswith(HUB_PREFIX):
        name = hub_name(source)
        stem = "-".join(filter(None, (expanded(name.path).resolve().name, name.configuration)))
    elif is_url(source):
        stem = stem_of(PurePosixPath(unquote(urlsplit(source).path)).name or urlsplit(source).hostname or "")
    else:
        path = expanded(source)
        plain = path.parts if path.exists() else [part for part in path.parts if not WILDCARDS & set(part)]
        last = Path(*plain).resolve().name if plain else ""
        stem = last if path.is_dir() else stem_of(last)
    return name_of(stem)


def name_of(stem: str) -> str:
    """Convert a stem to a name of at most 63 characters, which are a-z, 0-9 and dashes.

    Letters of other scripts are transliterated. If more than case and separators is lost, a digest of the stem is
    appended.
    """
    # The stem is normalised, because file systems differ in how they compose characters such as é.
    stem = unicodedata.normalize("NFC", stem)
    name = slugify(stem)
    if PLAIN_STEM.fullmatch(stem) and len(name) <= LONGEST_CORPUS_NAME:
        return name or "corpus"
    return with_digest(name, stem)


def with_digest(name: str, distinct: str) -> str:
    """Return the name, shortened if necessary, followed by eight digits of the digest of `distinct`."""
    return f"{name[: LONGEST_CORPUS_NAME - 9].strip('-') or 'corpus'}-{digest_of(distinct)[:8]}"


def stem_of(name: str) -> str:
    """Return the name without its suffix and its compression suffix: "news" for news.tar.gz."""
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem
