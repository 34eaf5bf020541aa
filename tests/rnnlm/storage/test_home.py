"""Every file and folder of an rnnlm home is complete or does not exist."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from rnnlm.errors import HomeError
from rnnlm.storage.home import Home, atomic_file, find_home, partial_path, read_json, remove_partials, write_json
from rnnlm.storage.stages import COMPLETE, find_damage, is_complete, mark_complete, write_once

UNREADABLE = Path("/proc/self/mem")  # This file cannot be read. On Linux, reading it from the start fails with EIO.
needs_unreadable = pytest.mark.skipif(not UNREADABLE.exists(), reason="needs a file that cannot be read, even by root")


def greet(partial: Path) -> None:
    (partial / "greeting.txt").write_text("hello")


def test_unnamed_home_is_the_nearest_upwards_else_here_and_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RNNLM_HOME", raising=False)
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert find_home().root == tmp_path / "a" / "b" / ".rnnlm"
    assert not find_home().root.exists()
    (tmp_path / ".rnnlm").mkdir()
    assert find_home().root == tmp_path / ".rnnlm"


@pytest.mark.parametrize("strange", ["others may write", "another user's"])
def test_a_home_that_another_user_could_have_filled_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, strange: str
) -> None:
    monkeypatch.delenv("RNNLM_HOME", raising=False)
    found = tmp_path / ".rnnlm"
    found.mkdir()
    if strange == "others may write":
        found.chmod(0o777)
    elif os.getuid() == 0:
        os.chown(found, 12345, -1)
    else:
        pytest.skip("only root can give a folder away")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert find_home().root == tmp_path / "below" / ".rnnlm"
    assert str(found) in caplog.text
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HomeError, match="RNNLM_HOME"):
        find_home()
    monkeypatch.setenv("RNNLM_HOME", str(found))
    assert find_home().root == found  # The rnnlm home in RNNLM_HOME is used although other users can write to it.


def test_a_home_that_we_make_is_ours_alone_whatever_the_umask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RNNLM_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o002)  # This umask is the default of many systems.
    try:
        home = find_home()
        home.make(home.prefect)
    finally:
        os.umask(before)
    assert find_home() == home


@pytest.mark.parametrize("name", ["a.txt", f"{'a' * 251}.txt", "文" * 85, f"{'я' * 120}.v2.x[1].jsonl", "*?[a].txt"])
def test_any_name_of_a_file_can_be_written_to_and_cleaned_up(tmp_path: Path, name: str) -> None:
    final = tmp_path / name
    with suppress(ZeroDivisionError), atomic_file(final) as partial:
        partial.write_text("killed")
        # The file is renamed, because atomic_file() removes its temporary file at the end.
        partial = partial.rename(partial_path(final))
        raise ZeroDivisionError
    other = tmp_path / ".another.txt.1234"
    other.touch()
    with atomic_file(final) as partial:
        partial.write_text("whole")
    assert len(list(tmp_path.iterdir())) == 3
    remove_partials(final)
    assert set(tmp_path.iterdir()) == {final, other}
    assert final.read_text() == "whole"


def test_output_is_made_once_and_again_if_forced_or_damaged(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    final = home.corpora / "one"
    assert not write_once(home, final, greet)
    assert write_once(home, final, lambda partial: pytest.fail("built twice"))
    assert not write_once(home, final, lambda p: (p / "greeting.txt").write_text("again") and None, force=True)
    assert (final / "greeting.txt").read_text() == "again"
    (final / "greeting.txt").write_text("damaged")
    assert not is_complete(final)
    assert not write_once(home, final, greet)
    assert "greeting.txt differs from its sha256" in caplog.text
    assert (final / "greeting.txt").read_text() == "hello"
    assert [path.name for path in home.corpora.iterdir()] == ["one"]


@needs_unreadable
def test_a_read_error_is_not_damage(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rnnlm.storage.disk_errors.FIRST_PAUSE_SECONDS", 0.0)
    final = home.corpora / "one"
    write_once(home, final, greet)
    (final / "greeting.txt").unlink()
    (final / "greeting.txt").symlink_to(UNREADABLE)
    with pytest.raises(HomeError, match=r"greeting\.txt: cannot be read \(Input/output error\)") as caught:
        write_once(home, final, lambda partial: pytest.fail("built although nothing is known to be damaged"))
    assert len(str(caught.value).splitlines()) == 2
    with pytest.raises(HomeError, match="cannot be read"):
        read_json(final / "greeting.txt")


@needs_unreadable
def test_a_read_error_that_passes_is_not_noticed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    final = home.corpora / "one"
    write_once(home, final, greet)
    greeting = final / "greeting.txt"
    greeting.unlink()
    greeting.symlink_to(UNREADABLE)

    def mend(seconds: float) -> None:
        greeting.unlink()
        greet(final)

    monkeypatch.setattr("rnnlm.storage.disk_errors.time.sleep", mend)
    assert find_damage(final) is None


def test_what_is_replaced_stays_until_its_replacement_is_there(home: Home) -> None:
    final = home.corpora / "one"
    write_once(home, final, greet)
    script = (
        "import os, signal; from pathlib import Path; from rnnlm.storage import stages as module\n"
        f"home = module.Home(Path({str(home.root)!r}))\n"
        "module.sync = lambda path: os.kill(os.getpid(), signal.SIGKILL) if path.name == 'corpora' else None\n"
        "real = Path.replace\n"
        "Path.replace = lambda a, b: os.kill(os.getpid(), signal.SIGKILL) if a.name[0] == '.' else real(a, b)\n"
        "module.mark_complete = lambda partial: None\n"
        "module.write_once(home, home.corpora / 'one', lambda p: None, force=True)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    assert not final.exists()  # After a kill between the two renames, the folder does not exist.
    assert write_once(home, final, lambda partial: pytest.fail("built although the old one is whole")) is True
    assert [path.name for path in home.corpora.iterdir()] == ["one"]


def test_failed_build_leaves_what_was_there_and_nothing_else(home: Home) -> None:
    final = home.corpora / "one"
    write_once(home, final, greet)

    def fail(partial: Path) -> None:
        (partial / "half").write_text("…")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_once(home, final, fail, force=True)
    assert [path.name for path in home.corpora.iterdir()] == ["one"]
    assert is_complete(final)


def test_leftovers_of_a_killed_build_are_cleared(home: Home) -> None:
    script = (
        "import os, signal\nfrom pathlib import Path\n"
        "from rnnlm.storage.home import Home\nfrom rnnlm.storage.stages import write_once\n"
        f"home = Home(Path({str(home.root)!r}))\n"
        "write_once(home, home.corpora / 'one', lambda p: os.kill(os.getpid(), signal.SIGKILL))"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    assert not (home.corpora / "one").exists()
    write_once(home, home.corpora / "one", greet)
    assert [path.name for path in home.corpora.iterdir()] == ["one"]


def test_two_builders_of_one_folder_build_it_once(home: Home) -> None:
    built: list[int] = []
    inside = threading.Event()

    def build(partial: Path) -> None:
        built.append(1)
        inside.wait(timeout=5)
        greet(partial)

    threads = [threading.Thread(target=write_once, args=(home, home.corpora / "one", build)) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.set()
    for thread in threads:
        thread.join()
    assert built == [1]


def test_marker_names_every_file_with_its_digest(home: Home) -> None:
    write_once(home, home.corpora / "one", greet)
    marker = json.loads((home.corpora / "one" / COMPLETE).read_text())
    assert marker == {"greeting.txt": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}


def test_json_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


def test_what_changes_later_may_be_left_out_of_the_marker(tmp_path: Path) -> None:
    for name in ("result", "later", "scratch/file"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    mark_complete(tmp_path, apart_from=("later", "scratch"))
    (tmp_path / "later").write_text("changed")
    shutil.rmtree(tmp_path / "scratch")
    assert is_complete(tmp_path)
    (tmp_path / "result").write_text("changed")
    assert not is_complete(tmp_path)


@pytest.mark.parametrize("name", ["what?", "a?b/c", "back\\slash", "new\nline", "escape\x1b"])
def test_a_home_s_path_that_a_database_would_misread_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("RNNLM_HOME", str(tmp_path / name))
    with pytest.raises(HomeError, match="must not contain"):
        find_home()
    monkeypatch.delenv("RNNLM_HOME")
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(HomeError, match="must not contain"):
        find_home()


def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for taken, kind in ((pipe, "a device or a pipe"), (folder, "a folder"), (Path("/dev/null"), "a device or a pipe")):
        with pytest.raises(OSError, match=f"is {kind}, expected a file: '{taken}'"), atomic_file(taken):
            pytest.fail("the block does work that would be lost")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "pipe"]
