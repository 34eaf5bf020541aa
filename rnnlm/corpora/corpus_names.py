"""The name of a corpus, which is configured or derived from its source."""

import re
import unicodedata
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from slugify import slugify

from rnnlm.config import CorpusConfig
from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.corpora.source_names import HUB_PREFIX, WILDCARDS, hub_name, is_url
from rnnlm.corpora.split_names import COMPRESSED
from rnnlm.storage.home import digest_of, expanded

LONGEST_CORPUS_NAME = 63  # The maximum length of a corpus's name.
PLAIN_STEM = re.compile(r"[A-Za-z0-9 ._-]*")  # A pattern for names that become a corpus's name without a digest.


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

    Letters of scripts other than Latin are transliterated. If more than case and separators is lost, a digest of the
    stem is appended.
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
