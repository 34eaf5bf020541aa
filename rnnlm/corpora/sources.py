"""Where text comes from: a catalogue name, a file or folder, an http(s) URL."""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rnnlm.config import CorpusConfig
from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.corpora.decoding import append_text
from rnnlm.corpora.fetching import fetch
from rnnlm.errors import CorpusError
from rnnlm.home import Home, digest_of, file_digest, is_complete, read_json, write_json, write_once
from rnnlm.records import SPLITS, CorpusRecord
from rnnlm.stages import stage

STAGE_VERSION = 1
SPLIT_WORDS = {
    "train": {"train", "training"},
    "valid": {"valid", "validation", "val", "dev"},
    "test": {"test"},
}


@stage("corpus")
def obtain_corpus(home: Home, config: CorpusConfig, *, force: bool = False) -> CorpusRecord:
    """The corpus as UTF-8 text under home.corpora, named by the sha256 of its bytes.

    A single UTF-8 file keeps its own sha256. CorpusError where there is no text to be had; FetchError
    where a download failed and may be tried again.
    """
    source = config.source
    if source in CATALOGUE:
        entry = CATALOGUE[source]
        key = {"stage": STAGE_VERSION, "catalogue": source, "versions": entry.versions()}
        return remembered(home, config, key, lambda folder: write_entry(source, folder), force)
    if is_url(source):
        key = {"stage": STAGE_VERSION, "url": source, "sha256": config.sha256, "encoding": config.encoding}
        return remembered(home, config, key, lambda folder: write_download(home, config, folder), force)
    path = check_path(source)
    return keep(home, config, lambda folder: write_path(path, config, folder), force)


def check_source(config: CorpusConfig) -> None:
    """CorpusError for a source that cannot be right, before anything is started for it."""
    if config.source not in CATALOGUE and not is_url(config.source):
        path = check_path(config.source)
        if path.is_dir():
            roles_in(path)


def corpus_name(config: CorpusConfig) -> str:
    """The configured name, else one made of the source's: 'data/My Text.txt' → 'my-text'."""
    if config.name:
        return config.name
    last = Path(urlsplit(config.source).path if is_url(config.source) else config.source).resolve()
    stem = last.name if last.is_dir() else last.stem
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63] or "corpus"


def is_url(source: str) -> bool:
    """True for http and https; CorpusError for another scheme."""
    scheme, separator, _ = source.partition("://")
    if not separator:
        return False
    if scheme.lower() not in ("http", "https"):
        raise CorpusError(f"{source}: expected an http or https URL, got {scheme}://; download it and give the file")
    return True


def check_path(source: str) -> Path:
    path = Path(source).expanduser()
    if not path.exists():
        raise CorpusError(
            f"{source}: no such file or folder, and no corpus of that name;\n"
            f"give a path, an http(s) URL, or one of: {', '.join(CATALOGUE)}"
        )
    return path


def roles_in(folder: Path) -> dict[str, list[Path]]:
    """Role (a split, or 'text') → its files. All three splits, or none and any number of .txt files."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    given = {
        split: [path for path in files if words & set(re.split(r"[._-]", path.name.lower()))]
        for split, words in SPLIT_WORDS.items()
    }
    found = [split for split in SPLITS if given[split]]
    if len(found) == 3:
        for split, paths in given.items():
            if len(paths) > 1:
                names = ", ".join(path.name for path in paths)
                raise CorpusError(f"{folder}: several files for the {split} split ({names}); leave one")
        return given
    if found:
        missing = ", ".join(f"{split}.txt" for split in SPLITS if split not in found)
        raise CorpusError(f"{folder}: has files for {', '.join(found)} but not {missing}; add them, or give one file")
    texts = [path for path in files if path.suffix.lower() == ".txt"]
    if not texts:
        raise CorpusError(f"{folder}: holds no text; expected train.txt, valid.txt and test.txt, or other .txt files")
    return {"text": texts}


Write = Callable[[Path], dict[str, Any]]  # writes <role>.txt files into a folder, returns facts about them


def write_entry(name: str, folder: Path) -> dict[str, Any]:
    entry = CATALOGUE[name]
    return {"licence": entry.licence, **entry.write(folder / "text.txt")}


def write_path(path: Path, config: CorpusConfig, folder: Path) -> dict[str, Any]:
    roles = roles_in(path) if path.is_dir() else {"text": [path]}
    any_text = False
    for role, sources in roles.items():
        with (folder / f"{role}.txt").open("wb") as target:
            for source in sources:
                any_text = append_text(source, config.encoding, target) or any_text
    if not any_text:
        raise CorpusError(f"{path}: is empty; expected text")
    if config.sha256 and path.is_file() and (got := file_digest(path)) != config.sha256:
        raise CorpusError(f"{path}: sha256 {got[:12]}, expected {config.sha256[:12]} (corpus.sha256); check the file")
    return {}


def write_download(home: Home, config: CorpusConfig, folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=home.corpora, prefix=".download-") as scratch:
        path = Path(scratch) / "download.txt"
        fetch(config.source, path, config.sha256)
        with (folder / "text.txt").open("wb") as target:
            if not append_text(path, config.encoding, target):
                raise CorpusError(f"{config.source}: is empty; expected text")
    return {}


def remembered(home: Home, config: CorpusConfig, key: dict[str, Any], write: Write, force: bool) -> CorpusRecord:
    """The corpus that `key` led to before, if it is still whole; else it is written and remembered."""
    note = home.corpora / "known" / f"{digest_of(key)[:16]}.json"
    known = read_json(note)
    if known and not force and is_complete(home.corpora / known["digest"][:16]):
        return record(home, config, known["digest"], skipped=True)
    home.make(note.parent)
    with home.lock(f"corpus-{note.stem}"):  # two runs at once: the second finds what the first wrote
        known = read_json(note)
        if known and not force and is_complete(home.corpora / known["digest"][:16]):
            return record(home, config, known["digest"], skipped=True)
        made = keep(home, config, write, force)
        write_json(note, {"digest": made.digest, "key": key})
        return made


def keep(home: Home, config: CorpusConfig, write: Write, force: bool) -> CorpusRecord:
    """Write the text aside, learn its digest, and move it under that name unless it is there."""
    home.make(home.corpora)
    with tempfile.TemporaryDirectory(dir=home.corpora, prefix=".incoming-") as scratch:
        folder = Path(scratch)
        facts = write(folder)
        files = {path.stem: path.name for path in sorted(folder.glob("*.txt"))}
        digests = {role: file_digest(folder / name) for role, name in files.items()}
        digest = digests["text"] if "text" in digests else combined(digests)
        size = sum((folder / name).stat().st_size for name in files.values())

        def build(partial: Path) -> None:
            for name in files.values():
                shutil.copy(folder / name, partial / name)
            about = {"files": files, "corpus_bytes": size, "digests": digests, "licence": "", **facts}
            write_json(partial / "corpus.json", about)

        skipped = write_once(home, home.corpora / digest[:16], build, force=force)
    return record(home, config, digest, skipped)


def combined(digests: dict[str, str]) -> str:
    """The digest of given splits: sha256 over each role and its file's digest."""
    lines = "".join(f"{role} {digests[role]}\n" for role in SPLITS)
    return hashlib.sha256(lines.encode()).hexdigest()


def record(home: Home, config: CorpusConfig, digest: str, skipped: bool) -> CorpusRecord:
    folder = home.corpora / digest[:16]
    about = read_json(folder / "corpus.json")
    return CorpusRecord(
        name=corpus_name(config),
        digest=digest,
        folder=folder,
        files=about["files"],
        corpus_bytes=about["corpus_bytes"],
        licence=about["licence"],
        source=config.source,
        skipped=skipped,
    )
