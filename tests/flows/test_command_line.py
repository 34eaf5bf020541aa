"""The `rnnlm` command as other programs call it: its exit code, its output, and at most three lines of error."""

import itertools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.command_line import app, build_group, main
from rnnlm.config.preset_files import preset_files
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord

pytestmark = pytest.mark.usefixtures("home")


def fails_with(capsys: pytest.CaptureFixture[str], arguments: list[str], *names: str) -> None:
    """Assert that the command exits with code 2, no output, and at most three lines of error with `names`."""
    capsys.readouterr()
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    told = err[err.index("rnnlm: ") :].strip().splitlines()
    assert out == ""
    assert len(told) <= 3, err
    assert "Traceback" not in err
    for name in names:
        assert name in " ".join(told), err


def help_pages(path: str = "rnnlm", command: Any = None) -> dict[str, str]:
    """Return the --help page of each command. The keys are the words of the command."""
    command = command or build_group()
    words = path.split()[1:]
    pages = {path: CliRunner().invoke(app, [*words, "--help"], prog_name="rnnlm").output}
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        pages |= help_pages(f"{path} {name}", command.get_command(None, name))
    return pages


@pytest.mark.long
def test_help_fits_80_columns_and_shows_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    monkeypatch.setenv("COLUMNS", "80")
    pages = help_pages()
    assert len(pages) > 20
    for name, page in pages.items():
        assert max(map(len, page.splitlines())) <= 80, name
        # `rnnlm probe` needs no example, because it has only subcommands.
        assert "example" in page or name == "rnnlm probe", name
    assert all(preset in pages["rnnlm run"] for preset in preset_files())


@pytest.mark.long
@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_of_help_end_where_the_next_word_does_not_fit(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", width)
    broken = 0
    for name, page in help_pages().items():
        stripped = "\n".join(line.strip() for line in page.splitlines())
        lines = stripped.partition("Usage:")[2].partition("\n\n")[2].partition("╭")[0].splitlines()
        for line, following in itertools.pairwise(lines):
            assert len(line) <= width
            if line and following:
                broken += 1
                assert len(f" {line} {following.split()[0]}") >= width, f"{name}: {line}"
    assert broken


def test_the_overview_imports_no_command() -> None:
    code = "import sys; from flows.command_line import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert not modules & {"pydantic", "torch", "prefect", "mlflow", "rnnlm.config"}


def test_status_imports_none_of_the_packages_that_take_seconds(home: Home) -> None:
    code = "import sys; from flows.command_line import main; main(['status']); print(*sys.modules)"
    environment = os.environ | {"RNNLM_HOME": str(home.root)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert not set(done.stdout.splitlines()[-1].split()) & {"torch", "prefect", "mlflow", "transformers"}


@pytest.mark.long
def test_a_wrong_model_is_answered_before_torch_is_imported(home: Home) -> None:
    calls = [
        ["generate", "nobody"],
        ["evaluate", "nobody", "--corpus", __file__],
        ["surprise", "nobody"],
        ["explain", "the cat", "nobody"],
        ["export", "nobody"],
        ["tokenize", "nobody", "--text", "a"],
        ["lm-eval", "nobody", "--file", __file__],
        ["score", "--input", __file__, "--output", "a.parquet", "--model", "nobody"],
        ["serve", "nobody"],
    ]
    code = (
        "import sys; from flows.command_line import main\n"
        f"for call in {calls!r}: print(main(call), 'torch' in sys.modules)"
    )
    environment = os.environ | {"RNNLM_HOME": str(home.root)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["2 False"] * len(calls), done.stderr


def test_a_call_without_arguments_prints_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Run the whole pipeline" in capsys.readouterr().out


@pytest.mark.long
def test_an_option_shows_its_fields_description_bounds_and_default() -> None:
    def text(command: str, option: str) -> str:
        parameters = build_group().get_command(None, command).params  # type: ignore[union-attr]
        return next(one.help for one in parameters if option in one.opts)  # type: ignore[attr-defined,return-value]

    assert text("serve", "--port") == "Port to listen on. If 0, a free port is chosen (0 to 65,535; default: 8000)."
    assert "above 0.0, at most 1.0; default: 0.2" in text("score", "--drift-threshold")
    pages = help_pages()
    assert "kneser-ney|textbook" in pages["rnnlm ngram"]
    echo = " ".join(pages["rnnlm probe echo"].replace("│", " ").split())
    assert "(of tanh, relu, sigmoid; default: tanh,relu)" in echo


def completions(words: str) -> list[str]:
    """Return the completions that the shell offers after these words."""
    environment = {
        "_RNNLM_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    result = CliRunner().invoke(app, [], prog_name="rnnlm", env=environment)
    return result.output.split()


def test_the_shell_completes_commands_presets_settings_and_models(toy_run: RunRecord) -> None:
    assert completions("rnnlm ge") == ["generate"]
    assert completions("rnnlm run --preset ptb") == ["ptb", "ptb-indrnn", "ptb-long"]
    assert completions("rnnlm run --set model.hid") == ["model.hidden_size="]
    assert completions(f"rnnlm generate {toy_run.run_id[:4]}") == [toy_run.run_id]
    assert completions("rnnlm run --force seq") == ["sequences"]


def write(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["run", "--set", "modl.layers=1"], ["modl", "model"]),
        (["run", "--set", "model.layers=0"], ["model.layers", "0"]),
        (["run", "--corpus", "/no/such/corpus.txt"], ["/no/such/corpus.txt"]),
        (["run", "--corpus", "ftp://example.org/corpus.txt"], ["ftp", "http"]),
        (["run", "--corpus", "http://"], ["http://", "valid address"]),
        (["run", "--corpus", "/no/such/*.txt"], ["/no/such/*.txt", "no file matches"]),
        (["run", "--corpus", "hf:/no/such/folder"], ["hf:/no/such/folder", "hf:OWNER/NAME"]),
        (["run", "--corpus", "/dev/null"], ["/dev/null", "neither a file nor a folder"]),
        (["run", "--set", "corpus.encoding=klingon"], ["corpus.encoding", "klingon"]),
        (["run", "--set", f"corpus.sha256={'0' * 64}"], ["corpus.sha256", "python-docs"]),
        (["run", "--set", "training.device=mps"], ["mps"]),
        (["run", "--epochs", "many"], ["training.epochs: expected a whole number", "many"]),
        (["generate", "-n", "many"], ["expected a whole number"]),
        (["generate", "-n", "0"], ["--number", "expected at least 1"]),
        (["describe", "nothing"], ["nothing", "rnnlm prepare"]),
        (["generate", "models:/nobody@champion"], ["nobody"]),
        (["generate", "models:/nobody@champion", "--temperature", "-1"], ["temperature", "-1"]),
        (["serve"], ["no registered model has a champion", "no model is registered yet"]),
        (["serve", "--host", "0.0.0.0"], ["0.0.0.0", "token"]),
        (["serve", "--port", "70000"], ["--port", "70000"]),
        (["probe", "gradients", "--hidden", "0"], ["--hidden"]),
        (["probe", "gradients", "--corpus", "/no/such/file"], ["/no/such/file"]),
        (["probe", "echo", "--distances", "0"], ["--distances"]),
        (["probe", "echo", "--symbols", "1"], ["--symbols"]),
        (["probe", "abilities", "--kinds", "rnn"], ["--kinds"]),
        (["probe", "abilities", "--tasks", "chess"], ["--tasks"]),
        (["probe", "abilities", "--lengths", "500"], ["--lengths"]),
        (["ngram", "--corpus", __file__, "--order", "0"], ["--order"]),
        (["ngram", "--corpus", __file__, "--method", "guess"], ["--method"]),
        (["ngram", "--corpus", __file__, "--memory-limit", "lots"], ["--memory-limit"]),
        (["compare", "--corpus", "zen", "--against", "one,two", "--seeds", "2"], ["--seeds needs training"]),
        (["prune", "--versions", "0"], ["--versions"]),
        (["settings", "modl"], ["sections: corpus, tokenizer"]),
        (["logs", "worcer"], ["expected one of up, prefect, mlflow, deploy, worker"]),
        (["run", "--force", "everything"], ["everything"]),
        (["run", "--everything"], ["--everything"]),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_a_wrong_call_is_reported_in_three_lines(
    capsys: pytest.CaptureFixture[str], arguments: list[str], names: list[str]
) -> None:
    fails_with(capsys, arguments, *names)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["lm-eval", "RUN"], ["--tasks", "--file"]),
        (["lm-eval", "RUN", "--file", "x", "--limit", "0"], ["--limit", "0"]),
        (["lm-eval", "RUN", "--tasks", "x", "--fewshot", "-1"], ["--fewshot", "-1"]),
        (["train", "--resume", "RUN"], ["is complete"]),
        (["train", "--resume", "RUN", "--set", "training.epochs=2"], ["--resume"]),
        (["train", "--resume", "RUN", "--force", "training"], ["--resume continues with the run's own"]),
        (["runs", "compare", "RUN", "nothing"], ["nothing: no such run"]),
        (["runs", "compare", "RUN", "RUN"], ["two different runs"]),
        (["explain", "the cat", "RUN", "--picture", "/"], ["--picture /"]),
        (["evaluate", "RUN", "--tune"], ["--tune", "--dynamic"]),
        (["evaluate", "RUN", "--dynamic", "--tune", "--dynamic-decay", "0.1"], ["leave out --dynamic-decay"]),
        (["evaluate", "RUN", "--cache-size", "10"], ["--cache-size", "--cache"]),
        (["evaluate", "RUN", "--dynamic", "--dynamic-rate", "-1"], ["--dynamic-rate", "-1"]),
        (["evaluate", "RUN", "--cache", "--cache-share", "1.5"], ["--cache-share", "1.5"]),
        (["evaluate", "RUN", "--dynamic-scaled"], ["--dynamic-scaled", "add --dynamic"]),
        (["evaluate", "RUN", "--dynamic", "--dynamic-scaled", "--split", "train"], ["--split test"]),
        (["evaluate", "RUN", "--interpolate", "kneser-ney", "--split", "valid"], ["--split test"]),
        (["evaluate", "RUN", "--set", "model.layers=2"], ["settings of the corpus"]),
    ],
    ids=lambda value: " ".join(value)[:60],
)
def test_a_wrong_call_on_a_run_is_reported_in_three_lines(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, arguments: list[str], names: list[str]
) -> None:
    fails_with(capsys, [toy_run.run_id if word == "RUN" else word for word in arguments], *names)


@pytest.mark.parametrize(
    ("arguments", "lines", "names"),
    [
        (["rnu"], 1, ["did you mean rnnlm run?"]),
        (["runs", "compar"], 1, ["did you mean rnnlm runs compare?"]),
        (["logs", "-f", "--json"], 1, ["leave out --follow or --json"]),
        (["compare", "--corpus", ""], 1, ["corpus.source"]),
        (["inspect", "~nosuchuser/x"], 2, ["~nosuchuser/x: no such file or folder"]),
        (["run", "--set", "hidden_size=3"], 1, ["did you mean model.hidden_size?"]),
        (["run", "--set", "model.hiden_size=3"], 1, ["did you mean model.hidden_size?"]),
        (["run", "--preset", "smok"], 1, ["did you mean smoke?"]),
        (["run", "--config", "nosuch.yaml"], 1, ["--config nosuch.yaml: no such file"]),
        (
            ["compare", "--corpus", "python-docs", "--models", "lstm,gruu"],
            1,
            ["expected one of 'elman', 'feed-forward', 'gru'", "'gruu'"],
        ),
        (["run", "--set", "tokenizer.kind=sentencepiece"], 1, ["tokenizer.kind", "char", "unigram", "sentencepiece"]),
        (["serve", "--host", "0.0.0.0"], 2, ["RNNLM_SERVE_TOKEN="]),
    ],
)
def test_a_mistake_gets_a_suggestion_in_as_few_lines_as_possible(
    capsys: pytest.CaptureFixture[str], arguments: list[str], lines: int, names: list[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert len(told.strip().splitlines()) == lines, told
    assert "^(" not in told  # The message does not show the regular expression of a setting.
    for name in names:
        assert name in told


def test_a_port_in_use_is_reported_before_the_model_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        fails_with(capsys, ["serve", "rnnlm-nosuch", "--port", str(port)], f"127.0.0.1:{port}", "--port")


def test_a_command_that_stores_nothing_makes_no_home(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"One line, and its number is {number}.\n" for number in range(100))
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    monkeypatch.delenv("RNNLM_HOME")
    monkeypatch.chdir(tmp_path)
    for command in (["inspect", "text.txt"], ["corpora"], ["settings"], ["runs"]):
        assert main(command) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.long
def test_a_corpus_that_is_not_text_is_reported_in_three_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prefect_server: None
) -> None:
    (tmp_path / "empty-folder").mkdir()
    fails_with(capsys, ["run", "--corpus", write(tmp_path / "empty.txt", b"")], "empty.txt")
    fails_with(capsys, ["run", "--corpus", str(tmp_path / "empty-folder")], "empty-folder")
    fails_with(capsys, ["run", "--corpus", write(tmp_path / "binary.txt", b"a\x00b\n" * 99)], "binary.txt")
    fails_with(
        capsys,
        ["run", "--corpus", write(tmp_path / "latin.txt", b"caf\xe9 au lait\n" * 99)],
        "latin.txt",
        "3",
    )


@pytest.mark.long
def test_a_split_without_a_predicted_token_is_named(
    capsys: pytest.CaptureFixture[str], toy_folder: Path, prefect_server: None
) -> None:
    (toy_folder / "valid.txt").write_text("\n\n")
    fails_with(capsys, ["run", "--corpus", str(toy_folder)], "valid")


def test_an_unwritable_home_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RNNLM_HOME", write(tmp_path / "file", b"in the way") + "/home")
    fails_with(capsys, ["models"], "file/home", "RNNLM_HOME")
    assert (tmp_path / "file").read_bytes() == b"in the way"


@pytest.mark.long
def test_a_named_device_that_is_absent_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], toy_folder: Path, prefect_server: None
) -> None:
    import torch

    absent = "mps" if torch.cuda.is_available() else "cuda"
    fails_with(capsys, ["run", "--corpus", str(toy_folder), "--set", f"training.device={absent}"], absent)


@pytest.mark.slow
def test_the_result_goes_to_stdout_and_warnings_to_stderr(toy_run: RunRecord) -> None:
    command = [sys.executable, "-m", "flows.command_line", "generate", toy_run.run_id]
    done = subprocess.run([*command, "--prompt", "zebra crossing"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.strip()
    assert "zebra" in done.stderr


@pytest.mark.slow
def test_runs_at_once_on_a_fresh_home_all_succeed(home: Home, toy_folder: Path) -> None:
    small = ["--set", "model.hidden_size=8", "--set", "training.epochs=1", "--set", "training.device=cpu"]
    command = [
        sys.executable,
        "-m",
        "flows.command_line",
        "run",
        "--corpus",
        str(toy_folder),
        *small,
        "--json",
    ]
    environment = os.environ | {"RNNLM_HOME": str(home.root)}
    runs = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=240) for process in runs]
    assert [process.returncode for process in runs] == [0, 0, 0], answers
    values = [json.loads(out) for out, _ in answers]
    assert len({value["run_id"] for value in values}) == 1
    assert len({value["test_perplexity"] for value in values}) == 1
    assert {value["model_version"] for value in values} == {1}


def test_pieces_are_not_coloured_in_a_pipe(capsys: pytest.CaptureFixture[str], toy_run: RunRecord) -> None:
    assert main(["tokenize", toy_run.run_id, "--text", "the cat", "--show"]) == 0
    assert capsys.readouterr().out == "the|cat\n"
