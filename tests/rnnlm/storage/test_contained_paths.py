"""Every reader refuses a name from a file if it would lead outside the folder."""

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.freshness import fetch_note, read_note
from rnnlm.evaluation.paired.holdout_documents import HoldoutDocument, read_text
from rnnlm.registry.stored_versions import owned_folder
from rnnlm.storage.contained_paths import UnsafeNameError, inside
from rnnlm.storage.home import Home
from rnnlm.storage.shared_storage import VARIABLE
from rnnlm.storage.stages import find_damage, mark_complete, write_once

ROOT = Path(__file__).parents[3]
HOSTILE = (
    "../outside",
    "../../outside",
    "below/../../outside",
    "/tmp/rnnlm-outside",
    "",
    ".",
    "..",
    "./a",
    "a//b",
    "a/",
    "nul\0byte",
    "escape\x1b[31m",
    "line\nfeed",
    "x" * 300,
    "ä" * 200,
    "surrogate\ud800",
    "link/secret",
    None,
    3,
    ["a"],
    {"a": 1},
)
hostile = pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:20])
hostile_text = pytest.mark.parametrize("name", [name for name in HOSTILE if isinstance(name, str)], ids=ascii)


def add_links(folder: Path, outside: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text("secret")
    (folder / "link").symlink_to(outside)


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@hostile
def test_a_hostile_name_is_no_path(tmp_path: Path, name: object) -> None:
    add_links(tmp_path / "folder", tmp_path / "outside")
    with pytest.raises(UnsafeNameError) as refused:
        inside(tmp_path / "folder", name)
    lines = str(refused.value).splitlines()
    assert len(lines) <= 3
    assert all(line.isprintable() for line in lines)


def test_a_relative_name_may_lie_on_another_disk(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large disk")
    for name in ("a", "model/config.json", "Ä ö.txt", "..a", ".hidden", "x" * 255):
        assert inside(tmp_path / "link", name) == tmp_path / "link" / name


@hostile_text
def test_a_stored_marker_writes_nothing_outside(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No file is written outside the folder if the marker in the shared storage contains a hostile name.

    The storage contains a file at the path of the hostile name, so an unsafe reader would copy it.
    """
    storage = tmp_path / "storage"
    monkeypatch.setenv(VARIABLE, storage.as_uri())
    marker = json.dumps({"text": "0" * 64, name: "0" * 64}).encode()
    files = storage / "corpora" / "one" / hashlib.sha256(marker).hexdigest()[:16]
    add_links(files, tmp_path / "outside")
    (storage / "corpora" / "one" / "COMPLETE").write_bytes(marker)
    (storage / "corpora" / "outside").write_text("evil")
    before = files_below(tmp_path) - files_below(home.root)
    assert not write_once(home, home.corpora / "one", lambda partial: (partial / "text").touch())
    assert find_damage(home.corpora / "one") is None
    written = files_below(tmp_path) - before - files_below(home.root)
    assert all(path.is_relative_to(storage) for path in written)
    assert not Path("/tmp/rnnlm-outside").exists()


@pytest.mark.parametrize("marker", [b"", b'{"text": "0', b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_marker_is_an_unfinished_folder(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: bytes
) -> None:
    monkeypatch.setenv(VARIABLE, (tmp_path / "storage").as_uri())
    stored = tmp_path / "storage" / "corpora" / "one" / "COMPLETE"
    stored.parent.mkdir(parents=True)
    stored.write_bytes(marker)
    assert not write_once(home, home.corpora / "one", lambda partial: (partial / "text").touch())
    # A correct marker has replaced the hostile marker.
    assert stored.read_bytes() == (home.corpora / "one" / "COMPLETE").read_bytes()
    (home.corpora / "one" / "COMPLETE").write_bytes(marker)
    assert write_once(home, home.corpora / "one", lambda partial: pytest.fail("the storage has it"))
    assert find_damage(home.corpora / "one") is None


@hostile_text
def test_a_local_marker_reads_nothing_outside(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    mark_complete(folder)
    add_links(folder, tmp_path / "outside")
    digest = hashlib.sha256(b"secret").hexdigest()
    (folder / "COMPLETE").write_text(json.dumps({name: digest}))
    # The link is allowed, because a user may move a file to another disk and leave a link in its place.
    if name == "link/secret":
        assert find_damage(folder) is None
    else:
        assert "not a file in this folder" in str(find_damage(folder))


@hostile
def test_a_note_of_a_corpus_leads_nowhere_else(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: object
) -> None:
    monkeypatch.setenv(VARIABLE, (tmp_path / "storage").as_uri())
    home.make(home.corpora)
    add_links(home.corpora, tmp_path / "outside")
    (home.root / "outside").mkdir()
    mark_complete(home.root / "outside")
    mark_complete(tmp_path / "outside")
    note = home.corpora / "known" / "note.json"
    note.parent.mkdir()
    facts: dict[str, object] = {"key": {}, "version": None, "obtained": "", "checked": "", "left_out": []}
    for content in (json.dumps({"digest": name, **facts}), "", "[]", "{}", "3"):
        note.write_text(content)
        assert read_note(home, note) is None
        (tmp_path / "storage/corpora/known").mkdir(parents=True, exist_ok=True)
        (tmp_path / "storage/corpora/known/note.json").write_text(content)
        assert fetch_note(home, note) is None


@hostile
def test_a_corpus_does_not_name_files_outside(home: Home, tmp_path: Path, name: object) -> None:
    source = tmp_path / "text.txt"
    source.write_text("a b c\n" * 30)
    config = CorpusConfig(source=str(source))
    corpus = obtain_corpus(home, config)
    add_links(corpus.folder, tmp_path / "outside")
    about = json.loads((corpus.folder / "corpus.json").read_text())
    (corpus.folder / "corpus.json").write_text(json.dumps(about | {"files": {"text": name}}))
    mark_complete(corpus.folder)
    with pytest.raises(UnsafeNameError):
        obtain_corpus(home, config)


@hostile_text
def test_a_dataset_s_table_does_not_name_texts_outside(tmp_path: Path, name: str) -> None:
    add_links(tmp_path / "corpus", tmp_path / "outside")
    facts = {"document_id": 1, "byte_offset": 0, "byte_count": 6, "sha256": hashlib.sha256(b"secret").hexdigest()}
    document = HoldoutDocument(source_file=name, **facts)
    with pytest.raises(UnsafeNameError):
        read_text(tmp_path / "corpus", document)


@pytest.mark.parametrize("place", ["1/../../../outside", "..", "1/../..", "", "."])
def test_the_registry_owns_no_folder_outside_of_the_home(home: Home, tmp_path: Path, place: str) -> None:
    """owned_folder() returns no folder outside the rnnlm home. `rnnlm prune` deletes the folders that it returns."""
    add_links(home.artifacts, tmp_path / "outside")
    assert owned_folder(home, f"{home.artifacts.as_uri()}/{place}/artifacts") is None
    assert owned_folder(home, f"{home.artifacts.as_uri()}/1/run/artifacts") == home.artifacts / "1" / "run"


@hostile_text
def test_a_lock_lies_in_the_home(home: Home, name: str) -> None:
    """The file of a lock is inside the rnnlm home for every name of a lock.

    The names of locks contain ids of runs and datasets, which are read from the registry.
    """
    if name in ("", ".", "..", "a/", "link/secret"):
        assert home.lock(name).lock_file.startswith(str(home.root))
        return
    with pytest.raises(UnsafeNameError):
        home.lock(name)


FROM_FILES = ("dataset_id", "corpus_digest", "run_id", "model_sha256", "source_file", "digest", "files", "tags")


def joined_names(tree: ast.AST) -> Iterator[ast.BinOp]:
    """Yield each path expression `a / b` in which b is a field of a record, an entry of a table or a tag."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            names = {found.attr for found in ast.walk(node.right) if isinstance(found, ast.Attribute)}
            keys = {
                found.slice.value
                for found in ast.walk(node.right)
                if isinstance(found, ast.Subscript) and isinstance(found.slice, ast.Constant)
            }
            if (names | keys) & set(FROM_FILES):
                yield node


# These paths need no check, because inside() has checked their records or this process has created them.
CHECKED_BEFORE = {
    "corpus.folder / corpus.files[role]",
    "corpus.folder / corpus.files['text']",
    "corpus.folder / (corpus.files.get('text') or corpus.files['train'])",
    "corpus.folder / byte_range.source_file",
    "folder / f'{Path(byte_range.source_file).stem}-{byte_range.byte_offset}-{byte_range.byte_count}.parquet'",
    "home.descriptions / dataset.dataset_id",
    "home.descriptions / f'copies-{dataset.dataset_id}.json'",
    "home.corpora / writer.digest[:16]",
    "home.references / model.digest[:16]",
}


def test_names_from_files_become_paths_through_one_function() -> None:
    found = {
        ast.unparse(node): str(path.relative_to(ROOT))
        for folder in ("rnnlm", "tasks", "flows")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in joined_names(ast.parse(path.read_text(encoding="utf-8")))
    }
    careless = {text: path for text, path in found.items() if text not in CHECKED_BEFORE}
    assert careless == {}, "use inside() of rnnlm/storage/contained_paths.py"
    assert set(found) >= CHECKED_BEFORE, "remove what is not there any more"
