"""The name of a corpus depends only on its source. File names that differ in a letter give different names."""

import re
import unicodedata
from itertools import combinations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from prefect.types.names import ArtifactKey
from pydantic import TypeAdapter

from rnnlm.config import CorpusConfig, RegistryConfig
from rnnlm.corpora.corpus_names import corpus_name, name_of
from rnnlm.registry.version_tags import registered_name
from rnnlm.tracking.run_names import page_key

TITLE = "the-complete-and-unabridged-minutes-of-the-meetings-of-the-harbour-commission"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("python-docs", "python-docs"),
        ("tinyshakespeare", "tinyshakespeare"),
        ("ptb", "ptb"),
        ("brown", "brown"),
        ("data/my-text.txt", "my-text"),
        ("data/My Text.txt", "my-text"),
        ("data/my_text.v2.txt", "my-text-v2"),
        ("data/_drafts_/", "drafts"),
        ("news.tar.gz", "news"),
        ("data/tickets/*.txt", "tickets"),
        ("https://example.org/archive/news.txt.gz?key=secret", "news"),
        ("https://user:secret@host.org", "host"),
        ("hf:owner/news", "news"),
        ("hf:owner/news:en", "news-en"),
        ("x" * 63 + ".txt", "x" * 63),
    ],
)
def test_a_plain_name_stays(source: str, name: str) -> None:
    assert corpus_name(CorpusConfig(source=source)) == name


@pytest.mark.parametrize(
    ("source", "beginning"),
    [
        ("новости-2024.txt", "novosti-2024-"),
        ("отзывы-2024.txt", "otzyvy-2024-"),
        ("小说.txt", "xiao-shuo-"),
        ("Übung.txt", "ubung-"),
        ("😀.txt", "corpus-"),
        ("c++.txt", "c-"),
        (f"{TITLE}-volume-one.txt", f"{TITLE[:54]}-"),
        ("https://example.org/%D0%BD%D0%BE%D0%B2%D0%BE%D1%81%D1%82%D0%B8.txt", "novosti-"),
    ],
)
def test_what_a_name_cannot_keep_is_in_its_digest(source: str, beginning: str) -> None:
    name = corpus_name(CorpusConfig(source=source))
    assert re.fullmatch(f"{beginning}[0-9a-f]{{8}}", name)


UNLIKE = (
    *("новости-2024", "отзывы-2024", "новости-2023", "2024", "роман", "roman", "война", "小说", "小說", "説", "نص"),
    *("ภาษา", "한국어", "Übung", "Ubung", "übungen", "naïve", "naive", "ß", "ss", "é", "e", "𝕬", "a", "ﬁ", "fi"),
    *("😀", "😃", "👩‍👩‍👧", "👩", "…", "——", "c++", "c#", "c", "a&b", "a@b", "100%", "100", "½", "x²", "x2", "x"),
    *(f"{TITLE}-volume-one", f"{TITLE}-volume-two", TITLE, "a" * 251, "a" * 250, "文" * 83, "文" * 82, "j" * 63),
    *("v1.5", "v15", "a.b.c", "abc", "\udcff", "\udcfe"),
)


def test_unlike_stems_have_unlike_names() -> None:
    names = {stem: name_of(stem) for stem in UNLIKE}
    assert [pair for pair in combinations(UNLIKE, 2) if names[pair[0]] == names[pair[1]]] == []


def simplified(stem: str) -> str:
    """Return the stem without differences that do not change the corpus's name: case and the kind of separators."""
    return re.sub(r"[ ._-]+", "-", unicodedata.normalize("NFC", stem)).strip("-").lower()


@given(
    st.text(st.sampled_from("abAB12 ._-+éüяж文😀"), min_size=1, max_size=90),
    st.text(st.sampled_from("abAB12 ._-+éüяж文😀"), min_size=1, max_size=90),
)
@example("ж", "zh")
@example("a" * 64, "a" * 65)
@example(".", "-")
def test_stems_that_differ_in_a_letter_have_two_names(one: str, other: str) -> None:
    assume(simplified(one) != simplified(other))
    assert name_of(one) != name_of(other)


@given(st.text(min_size=1))
@example("\udcff")
@example("-" * 70)
@example("a" * 53 + "--" + "b" * 30)
def test_every_name_is_taken_by_the_settings_by_prefect_and_by_mlflow(stem: str) -> None:
    name = name_of(stem)
    assert CorpusConfig(name=name).name == name
    assert RegistryConfig(model_name=registered_name(RegistryConfig(), name)).model_name == f"rnnlm-{name}"
    assert TypeAdapter(ArtifactKey).validate_python(page_key(name, "summary")) == f"{name}-summary"


def test_a_letter_has_one_name_however_it_is_composed() -> None:
    assert name_of(unicodedata.normalize("NFD", "Übung")) == name_of(unicodedata.normalize("NFC", "Übung"))
