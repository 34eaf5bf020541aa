"""The generated pages are current, the site can be built in strict mode, and every name on the pages exists."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rnnlm.storage.home import Below, Home
from tests.docs_module import load_docs_module

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NAMED_FILE = re.compile(r"`((?:rnnlm|flows|tasks|tests|sql|benchmarks|deploy|docs)/[\w./-]+)`")
FILE_SUFFIXES = {"duckdb", "json", "onnx", "parquet", "safetensors", "yaml"}
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return load_docs_module("generate")


def test_generated_pages_are_current(generator: ModuleType) -> None:
    stale = [path.name for path, text in generator.pages().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "run .venv/bin/python docs/generate.py"


def test_the_command_page_has_every_command(generator: ModuleType) -> None:
    page = generator.commands_page()
    for command in ("run", "train", "serve", "score", "models", "models show", "probe echo", "deploy"):
        assert f"\n## rnnlm {command}\n" in page


def test_the_configuration_page_shows_bounds(generator: ModuleType) -> None:
    page = generator.configuration_page()
    (row,) = [line for line in page.splitlines() if line.startswith("| `corpus.valid_share` ")]
    assert [cell.strip() for cell in row.split("|")[2:4]] == ["number, ≥ 0.0, < 0.5", "`0.05`"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.long
def test_settings_that_a_page_names_exist(generator: ModuleType, page: Path) -> None:
    known = set(re.findall(r"^\| `([\w.]+)` \|", generator.configuration_page(), re.MULTILINE))
    sections = {name.partition(".")[0] for name in known if "." in name}
    named = re.findall(r"(?:--set |`)([a-z]+\.[a-z_.]*[a-z])(?=[`=])", page.read_text(encoding="utf-8"))
    # A name that ends like a file, such as model.safetensors, is not a setting.
    named = [name for name in named if name.rpartition(".")[2] not in FILE_SUFFIXES]
    assert not [name for name in named if name.partition(".")[0] in sections and name not in known]


def test_layers_of_any_contract_are_drawn_in_order(generator: ModuleType) -> None:
    contract = {"name": "A & B", "type": "layers", "containers": ["pkg"], "layers": ["high | (beside)", "low"]}
    drawing = generator.layers_svg([contract])
    assert "A &amp; B" in drawing
    assert drawing.index(">pkg.high<") < drawing.index(">pkg.beside<") < drawing.index(">pkg.low<")
    assert generator.layers_svg([]).count("<text") == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [name for name in NAMED_FILE.findall(text) if not (ROOT / name).exists()]
    missing += [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.long
def test_the_site_builds_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="extra docs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = re.compile(r"<(?:script|img|link rel=.(?:stylesheet|preconnect).)[^>]*(?:src|href)=.?https?://")
    assert not [page.name for page in tmp_path.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))]


def test_the_page_of_the_home_has_every_folder_and_file_of_it() -> None:
    """The page about the rnnlm home lists every folder and file that the class Home names.

    The page may list more, because some commands create files without this class.
    """
    table = (ROOT / "docs" / "reference" / "home.md").read_text(encoding="utf-8").partition("## Shared storage")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {name.rstrip("/") for row in rows for name in re.findall("`([^`]+)`", row)}
    folders = {below.name for below in vars(Home).values() if isinstance(below, Below)}
    code = [path.read_text(encoding="utf-8") for folder in ("rnnlm", "flows") for path in (ROOT / folder).rglob("*.py")]
    folders |= {name for text in code for name in re.findall(r'home\.root / "([^".][^"]*)"', text)}
    assert folders - named == set()
    assert named & {"blobs", "backups"} == set()
