"""Where text comes from, fetched once: a catalogue name, hf:…, a file, folder or glob, an http(s) URL."""

import logging
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from rnnlm.config import CorpusConfig
from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.corpora.decoding import check_encoding
from rnnlm.corpora.hub import PREFIX, hub_name
from rnnlm.corpora.origins import WILDCARDS, Downloaded, OnDisk, Origin, is_url, origin_of
from rnnlm.corpora.roles import COMPRESSED, check_roles, split_named
from rnnlm.corpora.splits import carved_splits
from rnnlm.corpora.writing import CorpusWriter
from rnnlm.errors import CorpusError
from rnnlm.home import Home, digest_of, is_complete, read_json, write_json, write_once
from rnnlm.records import CorpusRecord
from rnnlm.stages import stage

logger = logging.getLogger(__name__)
STAGE_VERSION = 3
ABANDONED_SECONDS = 24 * 3600
TEXT_SETTINGS = (  # the fields of CorpusConfig that change the stored text; the shares cut it later
    "format",
    "column",
    "encoding",
    "undecodable",
    "normalization",
    "lowercase",
    "digits",
    "sha256",
)


@stage("corpus")
def obtain_corpus(home: Home, config: CorpusConfig, *, force: bool = False) -> CorpusRecord:
    """The corpus as clean UTF-8 text under home.corpora, named by the sha256 of its bytes.

    A single UTF-8 file keeps its own sha256. What was obtained before is not read again: a file is known by
    its path, size and time of change, a URL and a hub's data set by name. CorpusError where there is no text
    to be had; FetchError where a download failed and may be tried again.
    """
    origin = check_source(config)
    settings = {name: getattr(config, name) for name in TEXT_SETTINGS}
    key = {"stage": STAGE_VERSION, "origin": origin.key(), "settings": settings}
    corpus = remembered(home, config, key, origin, force)
    carved = carved_splits(corpus.files)
    if carved:
        role = next(iter(set(corpus.files) & {"text", "train"}))
        shares = ", ".join(f"{split} {getattr(config, f'{split}_share'):.1%}" for split in carved)
        logger.info("corpus: not given, so carved from %s by digest: %s", role, shares)
    return corpus


def check_source(config: CorpusConfig) -> Origin:
    """The source's origin; CorpusError for one that cannot be right, before anything is started for it."""
    check_encoding(config.encoding)
    origin = origin_of(config.source, config.format)
    if isinstance(origin, OnDisk) and origin.named:
        check_roles(config.source, {str(path): split_named(path.name) for path in origin.paths})
    one_file = isinstance(origin, Downloaded) or (isinstance(origin, OnDisk) and not origin.named)
    if config.sha256 and not one_file:
        raise CorpusError(f"corpus.sha256: is for one file or URL, and {config.source} is neither; leave it out")
    return origin


def corpus_name(config: CorpusConfig) -> str:
    """The configured name, else one made of the source's: 'data/My Text.txt' → 'my-text'."""
    if config.name:
        return config.name
    source = config.source
    if source in CATALOGUE:
        stem = source
    elif source.startswith(PREFIX):
        name = hub_name(source)
        stem = "-".join(filter(None, (Path(name.path).expanduser().resolve().name, name.configuration)))
    elif is_url(source):
        stem = stem_of(PurePosixPath(urlsplit(source).path).name or urlsplit(source).netloc)
    elif Path(source).expanduser().is_dir():
        stem = Path(source).expanduser().resolve().name
    else:
        stem = stem_of(last_plain_part(source))
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63].strip("-") or "corpus"


def stem_of(name: str) -> str:
    """The name without its suffix, and without a compression's: news.tar.gz → news."""
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


def last_plain_part(source: str) -> str:
    """'data/*.txt' → 'data': the last part that has no wildcard."""
    path = Path(source).expanduser()
    parts = path.parts if path.exists() else [part for part in path.parts if not WILDCARDS & set(part)]
    return Path(*parts).resolve().name if parts else ""


def remembered(home: Home, config: CorpusConfig, key: dict[str, Any], origin: Origin, force: bool) -> CorpusRecord:
    """The corpus that `key` led to before, if it is still whole; else it is written and remembered."""
    note = home.corpora / "known" / f"{digest_of(key)[:16]}.json"
    if not force and (kept := known(home, note)):
        return record(home, config, kept, skipped=True)
    home.make(home.corpora)
    with home.lock(f"corpus-{note.stem}"):  # two runs at once: the second finds what the first wrote
        if not force and (kept := known(home, note)):
            return record(home, config, kept, skipped=True)
        made = keep(home, config, origin, note.stem, force)
        home.make(note.parent)
        write_json(note, {"digest": made.digest, "key": key})
        return made


def known(home: Home, note: Path) -> str | None:
    """The digest that the note holds, if that corpus is there and whole."""
    noted = read_json(note)
    return noted["digest"] if noted and is_complete(home.corpora / noted["digest"][:16]) else None


def keep(home: Home, config: CorpusConfig, origin: Origin, name: str, force: bool) -> CorpusRecord:
    """Write the text aside, its digest taken on the way, and move it under that digest unless it is there."""
    with incoming(home, name) as folder:
        writer = CorpusWriter(folder, config)
        facts = origin.write(home, config, writer)
        writer.refuse_emptiness(config.source)

        def build(partial: Path) -> None:
            for file_name in writer.written:
                (folder / file_name).replace(partial / file_name)
            licence = CATALOGUE[config.source].licence if config.source in CATALOGUE else ""
            about = {"files": writer.files, "corpus_bytes": writer.corpus_bytes, "digests": writer.digests}
            about |= {"source_counts": writer.source_counts}
            write_json(partial / "corpus.json", {**about, "licence": licence, **facts})

        skipped = write_once(home, home.corpora / writer.digest[:16], build, force=force)
    return record(home, config, writer.digest, skipped)


@contextmanager
def incoming(home: Home, name: str) -> Iterator[Path]:
    """An empty folder that is gone afterwards, used under the name's lock.

    What a killed run left goes first: under the same name at once, under another after a day without a change.
    """
    folder = home.corpora / f".incoming-{name}"
    for other in home.corpora.glob(".incoming-*"):
        if other == folder or last_change(other) < time.time() - ABANDONED_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def last_change(folder: Path) -> float:
    """When the folder or a file in it was last written to; now, if it has just gone."""
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return time.time()


def record(home: Home, config: CorpusConfig, digest: str, skipped: bool) -> CorpusRecord:
    folder = home.corpora / digest[:16]
    about = read_json(folder / "corpus.json")
    return CorpusRecord(
        name=corpus_name(config),
        digest=digest,
        folder=folder,
        files=about["files"],
        corpus_bytes=about["corpus_bytes"],
        source_counts=about["source_counts"],
        licence=about["licence"],
        source=config.source,
        skipped=skipped,
    )
