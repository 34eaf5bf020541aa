"""Cleaning does not change a fingerprint; another text does."""

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.cleaning import clean
from rnnlm.corpora.splits import text_fingerprint

TEXT = "The Caf\u00e9's 12 ﬁnest\n\n   ÄRZTE, \u0130stanbul: 3.5 \u4f60\u597d!\n"


@pytest.mark.parametrize(
    "cleaning",
    [{"lowercase": True}, {"digits": "###"}, {"normalization": "NFKD"}, {"normalization": "NFC", "lowercase": True}],
)
def test_cleaning_leaves_the_fingerprint(cleaning: dict[str, object]) -> None:
    config = CorpusConfig.model_validate(cleaning)
    assert clean(TEXT, config) != TEXT
    assert text_fingerprint(clean(TEXT, config).encode()) == text_fingerprint(TEXT.encode())
