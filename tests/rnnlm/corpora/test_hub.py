"""`datasets` reads data sets from a local folder. An error is raised if the hub cannot be reached."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.corpora.download import check_source, obtain_corpus
from rnnlm.corpora.hub import find_revision, look_at_hub
from rnnlm.errors import CorpusError, FetchError
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.hub_server import HubServer
from tests.rnnlm.corpora.packed_files import parquet_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data-set"
    folder.mkdir()
    for split, texts in {
        "train": [" = Title = \n", "", "the cat", None, "two\r\nlines"],
        "validation": ["v"],
        "test": ["t\n"],
    }.items():
        (folder / f"{split}-00000-of-00001.parquet").write_bytes(parquet_of(texts))
    return folder


def obtain(home: Home, source: str, **settings: object) -> dict[str, str]:
    corpus = obtain_corpus(home, CorpusConfig.model_validate({"source": source} | settings))
    return {role: (corpus.folder / name).read_bytes().decode() for role, name in corpus.files.items()}


def test_a_folder_s_splits_and_column_are_read(home: Home, folder: Path) -> None:
    expected = {"train": " = Title = \n\nthe cat\ntwo\nlines\n", "valid": "v\n", "test": "t\n"}
    assert obtain(home, f"hf:{folder}") == expected
    assert corpus_name(CorpusConfig(source=f"hf:{folder}")) == "data-set"
    assert obtain_corpus(home, CorpusConfig(source=f"hf:{folder}")).skipped


def refused(home: Home, source: str, message: str, error: type[Exception] = CorpusError, **settings: object) -> None:
    with pytest.raises(error, match=message) as caught:
        obtain(home, source, **settings)
    assert isinstance(caught.value, FetchError) == (error is FetchError)
    assert len(str(caught.value).splitlines()) <= 3
    assert [path for path in home.corpora.rglob("*") if path.is_file()] == []


def test_errors_name_wrong_columns_configs_and_folders(home: Home, folder: Path) -> None:
    refused(home, f"hf:{folder}", "no column 'body'; it has: id, text", column="body")
    refused(home, f"hf:{folder}", "test: column 'id' holds int, expected text", column="id")
    refused(home, f"hf:{folder}:nope", "BuilderConfig 'nope' not found")
    for path in folder.iterdir():
        refused(home, f"hf:{path}", "without hf:")
        path.unlink()
    refused(home, f"hf:{folder}", "cannot be loaded")
    for source in ("hf:/no/such/folder", "hf:a/b/c", "hf:", "hf:./x"):
        with pytest.raises(CorpusError, match="no such folder"):
            check_source(CorpusConfig(source=source))
    refused(home, "hf:no good/name", "cannot be loaded|no such data set")


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "Connection refused"),
        pytest.param({"HF_HUB_OFFLINE": "1"}, "offline mode", marks=pytest.mark.long),
    ],
)
def test_an_unreachable_hub_is_one_sentence_at_once(tmp_path: Path, variables: dict[str, str], reason: str) -> None:
    environment = os.environ | {"RNNLM_HOME": str(tmp_path / "home"), "HF_HOME": str(tmp_path / "hf")} | variables
    command = [sys.executable, "-m", "flows.command_line", "run", "--corpus", "hf:owner/name"]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert first == (
        "rnnlm: hf:owner/name: the hub cannot be reached from here; check the network, or give the text as a file"
    )
    assert reason in second
    assert not (tmp_path / "home" / "prefect" / "prefect.db").exists()


@pytest.mark.parametrize(("status", "error"), [(503, FetchError), (429, FetchError), (403, CorpusError)])
def test_a_busy_hub_is_worth_another_try_and_a_refusal_is_not(
    home: Home, monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]
) -> None:
    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status)

    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(error) as caught:
            find_revision("hf:owner/name")
        if error is FetchError:
            look_at_hub("hf:owner/name")
        server.shutdown()
    assert isinstance(caught.value, FetchError) == (error is FetchError)


def from_loopback_hub(sources: list[str], folder: Path) -> list[str]:
    """Return the text or the error of each source, read by a separate process from a hub on this machine."""
    script = (
        "import json, sys; from rnnlm.config import CorpusConfig; from rnnlm.corpora.download import obtain_corpus\n"
        "from rnnlm.errors import CorpusError; from rnnlm.storage.home import find_home\n"
        "def told(source):\n"
        "    try: corpus = obtain_corpus(find_home(), CorpusConfig(source=source))\n"
        "    except CorpusError as error: return str(error)\n"
        "    return str({role: (corpus.folder / name).read_text() for role, name in corpus.files.items()})\n"
        "print(json.dumps([told(source) for source in sys.argv[1:]]))"
    )
    with HubServer() as hub:
        threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf"), "RNNLM_HOME": str(folder / "home")}
        done = subprocess.run(
            [sys.executable, "-c", script, *sources],
            env=os.environ | environment | {"HF_HUB_DISABLE_TELEMETRY": "1"},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
        )
        hub.shutdown()
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    return answers


@pytest.mark.slow
def test_a_hub_s_data_set_is_read_in_its_named_configuration(tmp_path: Path) -> None:
    """A named configuration of a data set is read, and unknown names cause an error.

    All sources are read in one process, because importing `datasets` takes seconds.
    """
    answers = {
        "hf:owner/name:small": "{'test': 'the fox\\n', 'train': 'the cat\\nthe dog\\n'}",
        "hf:owner/name:huge": "BuilderConfig 'huge' not found",
        "hf:nobody/nothing": "no such data set on the hub",
    }
    for (source, told), answer in zip(answers.items(), from_loopback_hub(list(answers), tmp_path), strict=True):
        assert told in answer, source
        assert len(answer.splitlines()) <= 3
