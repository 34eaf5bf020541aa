"""The current text of a source, stored under its digest with a note about its origin.

If the source changes, the new text is stored as well.
"""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.corpora.freshness import Note, fetch_note, is_current, latest_note, now, read_note, write_note
from rnnlm.corpora.source_names import absolute_source
from rnnlm.corpora.sources import Installed, Metadata, Source, UnavailableError, UnchangedError, Written
from rnnlm.corpora.text_changes import PARTS
from rnnlm.corpora.text_writer import CorpusWriter
from rnnlm.storage.home import Home, digest_of, write_json
from rnnlm.storage.stages import STAGE_VERSIONS, write_once

logger = logging.getLogger(__name__)
# The fields of CorpusConfig that change the stored text. The fractions of the splits are not among them, because the
# text is split later.
TEXT_SETTINGS = (
    "format",
    "column",
    "quoting",
    "encoding",
    "undecodable",
    "normalization",
    "lowercase",
    "digits",
    "sha256",
)


def current_note(home: Home, config: CorpusConfig, source: Source, force: bool) -> tuple[Note, bool]:
    """Return the note of the source's current text, and whether this text was already stored.

    If the text is not stored, it is read or downloaded first.
    """
    key = corpus_key(config, source)
    path = note_path(home, key)
    began = now()
    # `--verify` deletes this file, so that the source is read again even if its size and time have not changed.
    seen = home.verified / f"source-{path.stem}.json"

    def known() -> Note | None:
        is_seen = source.remote or isinstance(source, Installed) or seen.exists()
        return read_note(home, path) if is_seen and not force else None

    note = known()
    if note and is_current(note, config, source, began):
        return note, True
    home.make(home.corpora)
    # The lock makes the second of two simultaneous runs wait and use the text of the first one.
    with home.lock(f"corpus-{path.stem}"):
        note = known()
        if source.remote and not (force or note):
            note = fetch_note(home, path)
        if note and is_current(note, config, source, began):
            return note, True
        note, skipped = renewed_note(home, config, source, key, note, force)
        home.make(path.parent)
        write_note(path, note, source.remote)
        home.make(seen.parent)
        write_json(seen, key)
        return note, skipped


def renewed_note(
    home: Home, config: CorpusConfig, source: Source, key: Metadata, note: Note | None, force: bool
) -> tuple[Note, bool]:
    """Request the text from the source. Return the text's note, and whether the text was already stored.

    A new text is written and gets a new note. If the source reports that the text of `note` is unchanged, the time in
    `note` is updated. If the source is unavailable, the text of `note` is used, with a warning.
    """
    name, known = note_path(home, key).stem, note.version if note else None
    try:
        digest, written, skipped = store_text(home, config, source, name, known, force)
    except UnchangedError:
        assert note is not None
        return note.model_copy(update={"checked": now(), "problem": ""}), True
    except UnavailableError as error:
        assert note is not None
        logger.warning("%s\nThe stored copy of %s is used.", error, note.obtained[:10])
        return note.model_copy(update={"problem": "its server was unavailable"}), True
    moment = now()
    place = digest_of([absolute_source(config.source), key["settings"]])
    last = note or latest_note(home, place)
    new_note = Note(
        key=key,
        digest=digest,
        version=written.version,
        obtained=note.obtained if note and note.digest == digest else moment,
        checked=moment,
        left_out=written.left_out,
        place=place,
        before=(last.before if last.digest == digest else last.digest) if last else "",
    )
    return new_note, skipped


def store_text(
    home: Home, config: CorpusConfig, source: Source, name: str, known: Metadata | None, force: bool
) -> tuple[str, Written, bool]:
    """Write the text to a temporary folder, and move it to a folder named by its digest unless such a folder exists.

    Return the digest, the result of source.write(), and True if the folder already existed. Errors that source.write()
    raises are passed on.
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
    """Yield an empty temporary folder, while holding a lock with the same name.

    Folders that killed runs have left are removed.
    """
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


def corpus_key(config: CorpusConfig, source: Source) -> Metadata:
    """Return everything on which the stored text depends."""
    settings = {name: getattr(config, name) for name in TEXT_SETTINGS}
    return {"stage": STAGE_VERSIONS["corpus"], "origin": source.key(), "settings": settings}


def note_path(home: Home, key: Metadata) -> Path:
    """Return the path of the note for a key."""
    return home.corpora / "known" / f"{digest_of(key)[:16]}.json"
