"""The page of a corpus shows the text that was added since the previous run."""

from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.reports.pipeline_page import FILES_SHOWN, corpus_report
from rnnlm.storage.home import Home


def page(home: Home, source: Path) -> str:
    return corpus_report(obtain_corpus(home, CorpusConfig(source=str(source)))).replace("\\", "")


def write(folder: Path, texts: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def test_a_folder_has_a_table_of_what_is_new(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "tickets"
    write(folder, {"a.txt": "one\n", "b.txt": "two\n", "c.txt": "three\n"})
    first = page(home, folder)
    assert "| files | 3 |" in first
    assert "New since" not in first
    write(folder, {"a.txt": "one\nfour | <b>\n", "d.txt": "five\nsix\n", "e.txt": "seven\n"})
    (folder / "b.txt").unlink()
    second = page(home, folder)
    assert "| files | 4 |" in second
    assert "| new | 2 | +15 | 3 |\n| changed | 1 | +11 | 1 |\n| gone | 1 | -4 | 0 |\n| all | +1 | +22 | 4 |" in second
    assert "| a.txt | changed | 4 | 15 | 1 |" in second
    assert "| b.txt | gone | 4 | 0 | 0 |" in second
    assert "| a.txt | four | <b> |\n| d.txt | five |\n| d.txt | six |\n| e.txt | seven |" in second
    assert "| all | +1 | +22 | 4 |" in page(home, folder)  # A second run on the same day shows the same numbers.


def test_of_many_files_the_first_are_shown(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "in", {"000.txt": "begin\n"})
    page(home, tmp_path / "in")
    write(tmp_path / "in", {f"{number:03}.txt": f"line {number}\n" for number in range(1, 31)})
    found = page(home, tmp_path / "in")
    assert f"Files that differ (the first {FILES_SHOWN}, 10 more)" in found
    assert found.count("| new | 0 |") == FILES_SHOWN
