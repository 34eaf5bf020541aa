"""What a registered model is, read from its version's tags and its run."""

import shutil

import pytest

from rnnlm.serving.messages import ModelFacts
from rnnlm.serving.model_loader import load_served_model
from tests.registrar import Registrar


def facts_of_version(register: Registrar) -> ModelFacts:
    return load_served_model(register.home, "models:/rnnlm-toy/1").facts


@pytest.mark.long
def test_a_registered_version_has_its_scores_with_or_without_its_run(register: Registrar) -> None:
    register()
    test = register.evaluation.scores["test"]
    facts = facts_of_version(register)
    assert (facts.model, facts.corpus) == ("models:/rnnlm-toy/1", "toy")
    assert (facts.perplexity, facts.bits_per_byte) == (test.perplexity, test.bits_per_byte)
    assert facts.corpus_bytes is not None
    assert facts.corpus_bytes > 1_000
    assert facts.example_prompt == "the cat"
    assert str(register.home.root) not in facts.model_dump_json()
    shutil.rmtree(register.run.folder)
    assert facts_of_version(register) == facts.model_copy(update={"example_prompt": ""})


@pytest.mark.long
def test_a_prompt_with_an_unknown_word_is_no_example(register: Registrar) -> None:
    register()
    samples = register.run.folder / "samples.json"
    samples.write_text(samples.read_text().replace("the cat", "the zebra"))
    assert facts_of_version(register).example_prompt == ""  # its digest no longer fits
