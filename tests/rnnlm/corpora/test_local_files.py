"""Every text file of a folder is read. Files that are not read are listed with the reason."""

import os
from pathlib import Path

import pytest

from rnnlm.storage.home import Home
from tests.rnnlm.corpora.test_file_formats import obtain, stored, write


def reasons(home: Home, source: Path) -> dict[str, str]:
    return {one.name: one.reason for one in obtain(home, source).left_out}


def test_hidden_files_and_folders_are_never_read(home: Home, tmp_path: Path) -> None:
    for name in (".git/config.txt", ".venv/lib/a.md", ".env", ".secret.txt", "x/.git/b.txt", "a.txt"):
        write(tmp_path / "data" / name, f"secret of {name}\n".encode())
    assert stored(home, tmp_path / "data") == {"text": "secret of a.txt\n"}
    assert reasons(home, tmp_path / "data") == {".env, .git, .secret.txt, .venv": "hidden"}


def test_no_link_is_followed_out_of_the_folder(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "outside" / "secret.txt", b"secret\n")
    write(tmp_path / "data" / "a.txt", b"a\n")
    write(tmp_path / "data" / "blobs" / "3f.bin", b"b\n")
    write(tmp_path / "data" / ".keys" / "k.txt", b"secret\n")
    links = {
        "out.txt": "../outside/secret.txt",
        "outfolder": "../outside",
        "infolder": "blobs",
        "again.txt": "a.txt",
        "b.txt": "blobs/3f.bin",
        "gone.txt": "nothing.txt",
        "key.txt": ".keys/k.txt",
    }
    for name, target in links.items():
        (tmp_path / "data" / name).symlink_to(target)
    assert stored(home, tmp_path / "data") == {"text": "a\nb\n"}
    found = reasons(home, tmp_path / "data")
    assert found["out.txt"] == found["outfolder"] == "a link that leaves the folder"
    assert found["infolder"] == "a link to a folder"
    assert found["again.txt"] == "a link to a file that is read itself"
    assert found["gone.txt"] == "a link whose target does not exist"
    assert found["key.txt"] == "a link to a hidden file"
    assert found[".keys"] == "hidden"


def test_files_that_kubernetes_and_git_annex_keep_behind_links_are_read(home: Home, tmp_path: Path) -> None:
    kept = {"mounted": "..2026_09_01/train.txt", "annex": ".git/annex/objects/aa/SHA256E-s1.txt"}
    for name, target in kept.items():
        write(tmp_path / name / target, b"one\n")
    (tmp_path / "mounted" / "..data").symlink_to("..2026_09_01")
    (tmp_path / "mounted" / "train.txt").symlink_to("..data/train.txt")
    (tmp_path / "annex" / "notes.txt").symlink_to(kept["annex"])
    assert stored(home, tmp_path / "mounted") == {"train": "one\n"}
    assert stored(home, tmp_path / "annex") == {"text": "one\n"}


def test_each_file_left_out_has_a_reason(home: Home, tmp_path: Path) -> None:
    for name in ("a.txt", "chart.png", "main.o", "README.md", "x/LICENSE", "old.tar.gz"):
        write(tmp_path / "data" / name, f"{name}\n".encode())
    os.mkfifo(tmp_path / "data" / "pipe.txt")
    found = reasons(home, tmp_path / "data")
    assert set(found) == {"chart.png", "main.o", "README.md", "x/LICENSE", "old.tar.gz", "pipe.txt"}
    assert found["chart.png"] == "not text, judging by the name; corpus.format=text reads it"
    assert (
        found["README.md"] == found["x/LICENSE"] == "about the text, not part of it; a glob such as '**/*.md' reads it"
    )
    assert found["old.tar.gz"].startswith("an archive; a glob")
    assert found["pipe.txt"] == "neither a file nor a folder"
    assert stored(home, tmp_path / "data" / "*.md")["text"].split() == ["README.md"]


def test_a_thousand_names_are_kept_and_the_others_counted(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.txt", b"a\n")
    for number in range(1_003):
        (tmp_path / "data" / f"{number:04}.png").touch()
    left_out = obtain(home, tmp_path / "data").left_out
    assert len(left_out) == 1_001
    assert left_out[-1].name == "3 more"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_listed(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.txt", b"a\n")
    write(tmp_path / "data" / "closed" / "b.txt", b"b\n")
    (tmp_path / "data" / "closed").chmod(0)
    assert reasons(home, tmp_path / "data") == {"closed": "cannot be read (Permission denied)"}
