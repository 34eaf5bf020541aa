"""A relative path, a link and an absolute path of the same folder have the same absolute form."""

from pathlib import Path

import pytest

from rnnlm.corpora.source_names import absolute_source


def test_a_source_is_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "texts")
    here = str(tmp_path / "texts")
    assert {absolute_source(one) for one in ("texts", "./texts/", "link", here, "link/../texts")} == {here}
    assert absolute_source("texts/*.txt") == f"{here}/*.txt"
    assert absolute_source("hf:texts") == f"hf:{here}"
    for source in ("python-docs", "hf:owner/name", "https://example.org/a.txt"):
        assert absolute_source(source) == source
