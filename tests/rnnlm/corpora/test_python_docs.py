"""The built-in corpus python-docs contains only prose from docstrings, and each sentence only once."""

from pathlib import Path

import pytest

from rnnlm.corpora import python_docs
from rnnlm.corpora.python_docs import prose_sentences

DOCSTRING = """
Return the :func:`~os.walk` of *a tree*. It is
lazy, and yields `three values <tuple>`_ each time.

Parameters
----------
top : str
    The folder to begin with.
topdown : bool, optional
    Whether a folder comes before its children.

Example::

    for x in walk("a"):  # This is code and not a sentence.
        print(x)

Afterwards the ``generator`` is empty.

>>> walk("This is a doctest and no sentence.")
'It prints what it gives back to you.'

.. note:: This directive is dropped.

- The first bullet is one sentence.
- The second bullet is another.

Too short.
x = 3 + 4 * (5 - 6) / [7, 8].
"""


def test_only_prose_sentences_of_a_docstring_are_kept() -> None:
    assert list(prose_sentences(DOCSTRING)) == [
        "Return the os.walk of a tree.",
        "It is lazy, and yields three values each time.",
        "The folder to begin with.",
        "Whether a folder comes before its children.",
        "Afterwards the generator is empty.",
        "The first bullet is one sentence.",
        "The second bullet is another.",
    ]


@pytest.mark.parametrize("escape", [r"\x00", r"\0", r"\ud800", r"\N{NULL}"])
def test_sentences_that_no_text_file_may_contain_are_left_out(escape: str, tmp_path: Path) -> None:
    """Sentences with characters that no text file may contain are left out.

    A docstring with unescaped backslashes may contain such characters, for instance in base64.py of Python 3.14.
    """
    path = tmp_path / "module.py"
    path.write_text(f'"""Pad the input with b\'{escape}\' up to four bytes. Then encode all of the bytes."""\n')
    (docstring,) = python_docs.docstrings(path)
    assert list(prose_sentences(docstring)) == ["Then encode all of the bytes."]


def test_docstrings_are_read_and_never_run(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""The module."""\nraise SystemExit\ndef f():\n    """The function f."""\nclass C:\n    """The class C."""\n'
    )
    assert list(python_docs.docstrings(path)) == ["The module.", "The function f.", "The class C."]


@pytest.mark.slow
def test_the_same_sources_give_the_same_bytes_and_no_sentence_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_docs, "LIBRARIES", {})
    standard = dict(python_docs.python_sources())["the standard library"]
    few = [path for path in standard if path.parent.name in ("json", "email", "pydoc_data")]
    monkeypatch.setattr(python_docs, "python_sources", lambda: iter([("a few modules", few)]))
    facts = python_docs.write_python_docs(tmp_path / "one.txt")
    python_docs.write_python_docs(tmp_path / "two.txt")
    text = (tmp_path / "one.txt").read_text()
    assert text == (tmp_path / "two.txt").read_text()
    lines = [line for line in text.split("\n") if line]
    assert len(lines) == len(set(lines)) > 500
    assert facts["words"] == len(text.split())


@pytest.mark.slow
def test_the_corpus_has_at_least_600_000_words(tmp_path: Path) -> None:
    assert python_docs.write_python_docs(tmp_path / "text.txt")["words"] >= 600_000
