"""Lines wrapped at a fixed width are distinguished from sentences, verses and lists."""

import logging
import random
import textwrap
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.corpora.hard_wrapping import is_hard_wrapped
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home

DRAW = random.Random(0)
SENTENCE = "the cat sees a dog near that river house and follows its own old tree slowly"
WORDS = SENTENCE.split()


def sentence() -> str:
    return " ".join(DRAW.choices(WORDS, k=DRAW.randint(4, 30))).capitalize() + "."


PARAGRAPHS = [" ".join(sentence() for _ in range(DRAW.randint(2, 9))) for _ in range(300)]
WRAPPED = "\n\n".join(textwrap.fill(paragraph, 72) for paragraph in PARAGRAPHS) + "\n"


def test_hard_wrapped_lines_are_recognised() -> None:
    assert is_hard_wrapped(WRAPPED.split("\n"))
    for text in (
        [sentence() for _ in range(500)],
        # Lines in lower case without a full stop, as in the Penn Treebank.
        [sentence().lower().rstrip(".") for _ in range(500)],
        PARAGRAPHS,
        [word for _ in range(100) for word in WORDS],
        WRAPPED.split("\n")[:20],
        [],
    ):
        assert not is_hard_wrapped(text)


@pytest.mark.long
@pytest.mark.parametrize(("mode", "warned"), [("sentence", True), ("stream", False)])
def test_only_sentence_mode_warns(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str, warned: bool
) -> None:
    (tmp_path / "book.txt").write_text(WRAPPED)
    config = PipelineConfig.model_validate(
        {"corpus": {"source": str(tmp_path / "book.txt")}, "sequences": {"mode": mode}}
    ).model_copy(update={"corpus": CorpusConfig(source=str(tmp_path / "book.txt"), valid_share=0.2, test_share=0.2)})
    with caplog.at_level(logging.WARNING):
        prepare_dataset(home, config)
    assert ("wrapped at a fixed width" in caplog.text) == warned
