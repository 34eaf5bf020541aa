"""`rnnlm probe`: what another program reads of it, and the pictures it leaves."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.home import Home


@pytest.fixture(autouse=True)
def environment_of_its_own(home: Home) -> Iterator[None]:
    """`main` fills in os.environ: put it back for the next test."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_gradients_are_a_table_and_a_picture(
    capsys: pytest.CaptureFixture[str], tracked_home: Home, toy_folder: Path, prefect_server: None
) -> None:
    arguments = ["probe", "gradients", "--corpus", str(toy_folder), "--hidden", "8", "--steps", "12", "--rows", "4"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "network"
    assert len([line for line in lines if line.startswith(("tanh", "relu"))]) == 8
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"curves", "picture"}
    assert [len(curve["norms"][0]) for curve in found["curves"]] == [13] * 8
    assert f"picture  {found['picture']}" in lines  # the same settings, the same picture
    assert Path(found["picture"]).parent == tracked_home.probes
    assert Path(found["picture"]).read_bytes().startswith(b"\x89PNG")


def test_echo_is_a_table_and_a_picture(
    capsys: pytest.CaptureFixture[str], tracked_home: Home, prefect_server: None
) -> None:
    arguments = ["probe", "echo", "--distances", "1", "3", "--nonlinearity", "tanh", "--hidden", "8"]
    assert main([*arguments, "--training-steps", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["network", "1", "back", "3", "back"]
    assert [line.split("  ")[0] for line in lines[1:4]] == ["tanh, xavier", "tanh, orthogonal", "tanh, identity"]
    one = ["probe", "echo", "--nonlinearity", "relu", "--initialization", "identity", "--hidden", "4"]
    assert main([*one, "--training-steps", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [score["distance"] for score in found["scores"]] == [1, 2, 5, 10, 20, 40]
    assert Path(found["picture"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["gradients", "--hidden", "0"], "probe.hidden_size"),
        (["gradients", "--corpus", "/no/such/file"], "/no/such/file"),
        (["echo", "--distances", "0"], "probe.distances"),
        (["echo", "--symbols", "1"], "probe.symbols"),
    ],
)
def test_a_wrong_call_is_told_in_three_lines(
    capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    assert main(["probe", *arguments]) == 2
    out, err = capsys.readouterr()
    told = err[err.index("rnnlm: ") :].strip().splitlines()
    assert out == ""
    assert len(told) <= 3
    assert named in " ".join(told)
