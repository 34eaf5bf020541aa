"""Cleaning does not change a fingerprint; another text does."""

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.cleaning import clean
from rnnlm.corpora.splits import letters_of, text_fingerprint

TEXT = "The Caf\u00e9's 12 ﬁnest\n\n   ÄRZTE, \u0130stanbul: 3.5 \u4f60\u597d!\n"


@pytest.mark.parametrize(
    "cleaning",
    [{"lowercase": True}, {"digits": "###"}, {"normalization": "NFKD"}, {"normalization": "NFC", "lowercase": True}],
)
def test_cleaning_leaves_the_fingerprint(cleaning: dict[str, object]) -> None:
    config = CorpusConfig.model_validate(cleaning)
    assert clean(TEXT, config) != TEXT
    assert text_fingerprint(clean(TEXT, config).encode()) == text_fingerprint(TEXT.encode())


def test_other_letters_are_another_text() -> None:
    assert text_fingerprint(b"a cat") != text_fingerprint(b"a cut")
    assert text_fingerprint(b"12, 13") != text_fingerprint(b"12, 14")  # without letters a text is its own


def test_the_quick_way_for_ascii_is_the_general_one() -> None:
    ascii_text = "".join(map(chr, range(128)))
    assert letters_of(ascii_text.encode()) == letters_of((ascii_text + "\u4f60").encode()).replace(b"\xe4\xbd\xa0", b"")
