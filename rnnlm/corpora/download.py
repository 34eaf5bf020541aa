"""The corpus stage: obtain text once from a catalogue name, hf:…, a file, folder, glob or http(s) URL."""

import logging
import re
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from slugify import slugify

from rnnlm.config import CorpusConfig
from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.corpora.freshness import Note, fetch_note, freshness_of, is_current, latest_note, now, read_note, write_note
from rnnlm.corpora.hub import HUB_PREFIX, hub_name, look_at_hub
from rnnlm.corpora.local_files import HIDDEN_FILE, NOTE_REASON, WILDCARDS
from rnnlm.corpora.preflight import look_at
from rnnlm.corpora.small_corpora import fill_splits
from rnnlm.corpora.sources import (
    Downloaded,
    Metadata,
    OnDisk,
    OnHub,
    Source,
    UnavailableError,
    UnchangedError,
    Written,
    absolute_source,
    find_source,
    is_url,
)
from rnnlm.corpora.split_names import COMPRESSED, check_roles, named_splits, unclear_split_names
from rnnlm.corpora.text_changes import PARTS
from rnnlm.corpora.text_encoding import check_encoding, shortened
from rnnlm.corpora.text_writer import CorpusWriter
from rnnlm.corpora.training_sample import sample_training
from rnnlm.errors import CorpusError
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, digest_of, expanded, read_json, write_json
from rnnlm.storage.records import CorpusRecord, LeftOut
from rnnlm.storage.shared_storage import find_storage
from rnnlm.storage.stages import STAGE_VERSIONS, stage, write_once

logger = logging.getLogger(__name__)
LONGEST_CORPUS_NAME = 63  # characters of a corpus's name
PLAIN_STEM = re.compile(r"[A-Za-z0-9 ._-]*")  # its name tells all of it
LEFT_OUT_KEPT = 1_000  # of the names of files that were not read
TEXT_SETTINGS = (  # fields of CorpusConfig that change the stored text; the shares only split it later
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
    """The corpus as clean UTF-8 text under home.corpora, named by the sha256 of its bytes, whole even if it is sampled.

    A single UTF-8 file keeps its own sha256. A local file is read again only if its path, size or modification time has
    changed. A server or hub is asked for changes as often as config.refresh says; if it is unavailable, the stored copy
    is used, with a warning. CorpusError if there is no text; FetchError if a download failed and may be retried.
    """
    source = configured_source(config)
    key = corpus_key(config, source)
    corpus = sample_training(home, remembered(home, config, key, source, force), config.maximum_documents)
    report_left_out(corpus)
    if corpus.carved_shares:
        role = "text" if "text" in corpus.files else "train"
        shares = ", ".join(f"{split} {share:.1%}" for split, share in corpus.carved_shares.items())
        logger.info("corpus: splits that are not given are carved from %s by digest: %s", role, shares)
    if corpus.document_lines:
        logger.info("corpus: a small text: it is cut by line, so that no split is empty")
    if corpus.sample:
        count, size = f"{config.maximum_documents:,}", f"{corpus.sample.byte_count:,}"
        logger.info("corpus: a sample of at most %s training documents, %s bytes, by digest", count, size)
    return corpus


def corpus_key(config: CorpusConfig, source: Source) -> Metadata:
    """Everything that the stored text depends on."""
    settings = {name: getattr(config, name) for name in TEXT_SETTINGS}
    return {"stage": STAGE_VERSIONS["corpus"], "origin": source.key(), "settings": settings}


def note_path(home: Home, key: Metadata) -> Path:
    """The file that remembers the corpus of a key."""
    return home.corpora / "known" / f"{digest_of(key)[:16]}.json"


def report_left_out(corpus: CorpusRecord) -> None:
    """One line for what was left out, except notes and hidden files, and one for what was read with changes."""
    is_local = "://" not in corpus.source and not corpus.source.startswith(HUB_PREFIX)
    advice = "; rnnlm inspect lists all" if is_local else ""  # it reads nothing else
    for read, what in ((False, "left out"), (True, "read with changes")):
        found = [one for one in corpus.left_out if one.read == read and one.reason not in (HIDDEN_FILE, NOTE_REASON)]
        if found:
            names = shortened(f"{one.name} ({one.reason})" for one in found)
            logger.warning("%s: %s %s: %s%s", corpus.source, f"{len(found):,}", what, names, advice)


def check_source(config: CorpusConfig, home: Home | None = None) -> None:
    """CorpusError for a wrong source, before anything is started for it. Reads the beginning of files.

    home: the hub is asked for a data set that is not stored there.
    """
    source = configured_source(config)
    if isinstance(source, OnDisk):
        look_at(config.source, source.files, source.named, config)
    elif isinstance(source, OnHub) and source.remote and home is not None and find_storage() is None:
        is_stored = read_note(home, note_path(home, corpus_key(config, source))) is not None
        if not is_stored:
            look_at_hub(source.source)


def configured_source(config: CorpusConfig) -> Source:
    """The source that the configuration names. CorpusError if there is none."""
    check_encoding(config.encoding)
    source = find_source(config.source, config.format)
    if isinstance(source, OnDisk) and source.named:
        names = [file.name for file in source.files]
        check_roles(config.source, named_splits(names))
        if unclear := unclear_split_names(names):
            logger.warning(
                "%s: read as ordinary text: %s; a split is named test.txt, or news-test.txt beside news-train.txt",
                config.source,
                shortened(unclear),
            )
    one_file = isinstance(source, Downloaded) or (isinstance(source, OnDisk) and not source.named)
    if config.sha256 and not one_file:
        raise CorpusError(f"corpus.sha256: is for one file or URL, and {config.source} is neither; leave it out")
    return source


def corpus_name(config: CorpusConfig) -> str:
    """Return the configured name, else one derived from the source alone: 'data/My Text.txt' → 'my-text'."""
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
    """Return the stem in at most 63 of a-z, 0-9 and dashes.

    Letters of other scripts are transliterated. If more is lost than case and separators, a digest of the stem follows.
    """
    stem = unicodedata.normalize("NFC", stem)  # file systems differ in how they compose é
    name = slugify(stem)
    if PLAIN_STEM.fullmatch(stem) and len(name) <= LONGEST_CORPUS_NAME:
        return name or "corpus"
    return with_digest(name, stem)


def with_digest(name: str, distinct: str) -> str:
    """Return the name, shortened if need be, with eight digits of the digest of what it is to be told apart by."""
    return f"{name[: LONGEST_CORPUS_NAME - 9].strip('-') or 'corpus'}-{digest_of(distinct)[:8]}"


def stem_of(name: str) -> str:
    """The name without its suffix and that of a compression: news.tar.gz → news."""
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


def remembered(home: Home, config: CorpusConfig, key: Metadata, source: Source, force: bool) -> CorpusRecord:
    """The corpus stored for `key`, if it is complete and current; else obtain and remember it."""
    path = note_path(home, key)
    began = now()
    note = None if force else read_note(home, path)
    if note and is_current(note, config, source, began):
        return record(home, config, note, source)
    home.make(home.corpora)
    with home.lock(f"corpus-{path.stem}"):  # of two simultaneous runs, the second finds what the first wrote
        note = None if force else read_note(home, path)
        if source.remote and not (force or note):
            note = fetch_note(home, path)
        if not (note and is_current(note, config, source, began)):
            note, made = renewed(home, config, source, key, note, force)
            home.make(path.parent)
            write_note(path, note, source.remote)
            if made:
                return made
        return record(home, config, note, source)


def renewed(
    home: Home, config: CorpusConfig, source: Source, key: Metadata, note: Note | None, force: bool
) -> tuple[Note, CorpusRecord | None]:
    """The note of the current text, and its record if it was written."""
    try:
        known = note.version if note else None
        digest, written, skipped = store_text(home, config, source, note_path(home, key).stem, known, force)
    except UnchangedError:
        assert note is not None
        return note.model_copy(update={"checked": now(), "problem": ""}), None
    except UnavailableError as error:
        assert note is not None
        logger.warning("%s\nThe stored copy of %s is used.", error, note.obtained[:10])
        return note.model_copy(update={"problem": "its server was unavailable"}), None
    moment = now()
    place = digest_of([absolute_source(config.source), key["settings"]])
    last = note or latest_note(home, place)
    renewal = Note(
        key=key,
        digest=digest,
        version=written.version,
        obtained=note.obtained if note and note.digest == digest else moment,
        checked=moment,
        left_out=written.left_out,
        place=place,
        before=(last.before if last.digest == digest else last.digest) if last else "",
    )
    return renewal, record(home, config, renewal, source, skipped=skipped)


def store_text(
    home: Home, config: CorpusConfig, source: Source, name: str, known: Metadata | None, force: bool
) -> tuple[str, Written, bool]:
    """Write the text to a temporary folder, then move it under its digest unless that exists.

    Returns the digest, what to remember, and whether the text existed. Raises what Source.write raises.
    """
    with incoming(home, name) as folder:
        writer = CorpusWriter(folder, config)
        written = source.write(home, config, writer, known)
        writer.refuse_emptiness(config.public_source)

        def build(partial: Path) -> None:
            for path in writer.written:
                path.replace(partial / path.name)
            licence = CATALOGUE[config.source].licence if config.source in CATALOGUE else ""
            about = {"files": writer.files, "corpus_bytes": writer.corpus_bytes, "digests": writer.digests}
            about |= {"source_counts": writer.source_counts}
            write_json(partial / "corpus.json", {**about, "licence": licence, **written.facts})
            write_json(partial / PARTS, [part.model_dump() for part in writer.parts])

        skipped = write_once(home, home.corpora / writer.digest[:16], build, force=force)
    return writer.digest, written, skipped


@contextmanager
def incoming(home: Home, name: str) -> Iterator[Path]:
    """An empty temporary folder; call it under the name's lock. Removes folders that killed runs left behind."""
    folder = home.corpora / f".incoming-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    for other in home.corpora.glob(".incoming-*"):
        with home.lock_if_free(f"corpus-{other.name.removeprefix('.incoming-')}") as free:
            if free:
                shutil.rmtree(other, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def record(home: Home, config: CorpusConfig, note: Note, source: Source, *, skipped: bool = True) -> CorpusRecord:
    folder = inside(home.corpora, note.digest[:16])
    about = read_json(folder / "corpus.json")
    for file_name in about["files"].values():
        inside(folder, file_name)
    corpus = CorpusRecord(
        name=corpus_name(config),
        digest=note.digest,
        folder=folder,
        files=about["files"],
        shares=(config.valid_share, config.test_share),
        corpus_bytes=about["corpus_bytes"],
        before=note.before,
        source_counts=about["source_counts"],
        licence=about["licence"],
        source=config.public_source,
        freshness=freshness_of(note, source),
        skipped=skipped,
        left_out=limited((*source.left_out, *note.left_out)),
    )
    return fill_splits(corpus)


def limited(left_out: tuple[LeftOut, ...]) -> tuple[LeftOut, ...]:
    """At most LEFT_OUT_KEPT, and the number of others."""
    if len(left_out) <= LEFT_OUT_KEPT:
        return left_out
    more = LeftOut(name=f"{len(left_out) - LEFT_OUT_KEPT:,} more", reason="not listed here")
    return (*left_out[:LEFT_OUT_KEPT], more)
