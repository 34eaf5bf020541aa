"""The description of a served model is read from its version's tags and from its run."""

import shutil
from pathlib import Path

import pytest

from rnnlm.extensions.serving.model_facts import example_prompt
from rnnlm.extensions.serving.model_loader import LoadedModel, load_served_model
from rnnlm.storage.home import Home
from rnnlm.storage.json_results import write_json_once
from tests.registrar import Registrar


@pytest.mark.long
def test_a_registered_version_has_its_scores_with_or_without_its_run(registered: Registrar) -> None:
    test = registered.evaluation.scores["test"]
    facts = load_served_model(registered.home, "models:/rnnlm-toy/1").facts
    assert (facts.model, facts.corpus) == ("models:/rnnlm-toy/1", "toy")
    assert (facts.perplexity, facts.bits_per_byte) == (test.perplexity, test.bits_per_byte)
    assert facts.corpus_bytes is not None
    assert facts.corpus_bytes > 1_000
    assert facts.example_prompt == "the cat"
    assert str(registered.home.root) not in facts.model_dump_json()
    shutil.rmtree(registered.run.folder)
    without_run = load_served_model(registered.home, "models:/rnnlm-toy/1").facts
    assert without_run == facts.model_copy(update={"example_prompt": ""})


def test_a_prompt_with_an_unknown_word_is_no_example(home: Home, loaded: LoadedModel, tmp_path: Path) -> None:
    samples = [{"prompt": prompt} for prompt in ("", "the zebra", "the <unk>", "the cat", "the dog")]
    write_json_once(home, tmp_path / "samples.json", "key", lambda: samples)
    assert example_prompt(tmp_path, loaded.tokenizer) == "the cat"
