"""The commands of each how-to guide can be run in one shell, in the order of the page."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from rnnlm.runtime.ports import free_port
from tests.conftest import write_toy_corpus
from tests.rnnlm.corpora.packed_files import COMPRESSIONS
from tests.rnnlm.extensions.scoring.test_strange_documents import usual_lines
from tests.test_tutorial import ROOT, in_one_shell, shell_lines

GUIDES = ROOT / "docs" / "how-to"
ELSEWHERE = {
    "install": "make and package indexes; tests/test_makefile.py, tests/test_pytorch_build.py, tests/test_wheel.py",
    "servers-by-hand": "servers in the background; tests/flows/operations/test_deployments.py starts them",
    "upgrade": "two versions; tests/test_wheel.py",
    "python": "its code is Python; tests/test_tutorial.py",
    "cluster": "a Ray cluster; make test-ray",
    "distributed": "several machines; tests/rnnlm/extensions/distributed",
    "team": "PostgreSQL, S3 and containers; make test-services",
}
TRAINED = "rnnlm run --corpus my-text.txt --preset smoke --set registry.model_name=rnnlm-python-docs"


class Guide(NamedTuple):
    """The needs of a documentation page's commands: input files, and values to replace on each machine."""

    write: Callable[[Path], None]  # This function writes the files that the page expects.
    before: tuple[str, ...] = ()  # The commands of other pages that must run first.
    replaced: tuple[tuple[str, str], ...] = ()  # Replacements that are made in the page's lines, in this order.
    # Lines that contain one of these texts are left out, because they need other servers or an interrupted run.
    left_out: tuple[str, ...] = ()


def write_texts(folder: Path) -> None:
    toy = write_toy_corpus(folder / "folder")
    text = (toy / "train.txt").read_text(encoding="utf-8")
    (folder / "my-text.txt").write_text(text, encoding="utf-8")
    rows = "".join(json.dumps({"body": line, "url": str(n)}) + "\n" for n, line in enumerate(text.splitlines()))
    (folder / "data").mkdir()
    (folder / "data" / "rows.jsonl.zst").write_bytes(COMPRESSIONS[".zst"](rows.encode()))


def write_schedules(folder: Path) -> None:
    write_texts(folder)
    (folder / "notes.txt").write_bytes((folder / "my-text.txt").read_bytes())
    for name in ("my-folder", "tickets"):
        write_toy_corpus(folder / name)


def write_inputs(folder: Path) -> None:
    write_texts(folder)
    lines = (folder / "my-text.txt").read_text(encoding="utf-8").splitlines()[:40]
    (folder / "texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = "".join(json.dumps({"body": line, "url": str(n)}) + "\n" for n, line in enumerate(lines))
    (folder / "crawl").mkdir()
    (folder / "crawl" / "a.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    with duckdb.connect(str(folder / "docs.duckdb")) as connection:
        connection.execute("create table docs (id integer, text varchar)")
        connection.executemany("insert into docs values (?, ?)", [list(row) for row in enumerate(lines)])


def write_logs(folder: Path) -> None:
    lines = usual_lines()
    (folder / "yesterday.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines[100] = lines[100].replace("took ", "took 98")
    (folder / "today.log").write_text("\n".join(lines) + "\n", encoding="utf-8")


READERS = {
    "upkeep": Guide(
        write_texts,
        before=("rnnlm run --corpus my-text.txt --preset smoke",),
        replaced=(
            ("/mnt/backup/rnnlm/20261124T230000Z-1a2b3c4d.rnnlm-backup.tar", "backups/*.rnnlm-backup.tar"),
            ("/mnt/backup/rnnlm", "backups"),
            ("/srv/rnnlm", "restored"),
        ),
        left_out=("rnnlm deploy",),
    ),
    "every-night": Guide(
        write_schedules,
        before=("trap 'rnnlm down' EXIT",),
        replaced=(
            ("make up ", f".venv/bin/rnnlm up --detach --port {free_port()} --mlflow-port {free_port()} "),
            ("/data/tickets/", "tickets/"),
        ),
        left_out=("rnnlm notify",),  # This command is left out, because it would send messages to other people.
    ),
    "environments": Guide(write_texts, left_out=("example.org",)),
    "filter-a-crawl": Guide(write_inputs, before=(TRAINED,), left_out=("prefect",)),
    "find-strange-lines": Guide(write_logs, left_out=("uniq",)),
    "scoring": Guide(write_inputs, before=(TRAINED,), replaced=(("docs/3", "docs/1"),), left_out=("prefect", "-p ")),
    "serving": Guide(write_texts, before=(TRAINED,), replaced=(("docs/3", "docs/1"),)),
    "use-a-model": Guide(write_texts, before=(TRAINED,)),
    "your-own-text": Guide(
        write_texts,
        replaced=(("29d381a58c3c", "$(ls .rnnlm/datasets | head -1)"),),
        left_out=("https://", "hf:", "--resume"),
    ),
}


def test_every_guide_is_run_or_needs_what_is_not_here() -> None:
    assert {page.stem for page in GUIDES.glob("*.md")} == READERS.keys() | ELSEWHERE.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_guide_runs_in_one_shell_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    guide = READERS[name]
    guide.write(tmp_path)
    lines = shell_lines(GUIDES / f"{name}.md")
    shown = [line for line in lines if not any(part in line for part in guide.left_out)]
    assert shown
    for old, new in guide.replaced:
        assert any(old in line for line in shown), old
        shown = [line.replace(old, new) for line in shown]
    in_one_shell(tmp_path, [*guide.before, *shown])
