"""A run's model folder as transformers' own ways of loading see it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

from rnnlm.config import GenerationConfig
from rnnlm.generation.generate import continue_prompt
from tests.rnnlm.conftest import Storyteller

TEXTS = ["anna", "felix paints the", "clara sells", ""]
GREEDY = {"do_sample": False, "max_new_tokens": 12, "return_full_text": False}


def ours(storyteller: Storyteller, text: str) -> str:
    config = GenerationConfig(temperature=0, maximum_tokens=12)
    return continue_prompt(storyteller.network(), storyteller.tokenizer, text, config).text


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_transformers_pipeline_writes_the_same_text(storyteller: Storyteller, batch_size: int) -> None:
    """From the text alone: the tokenizer puts `<bos>` before it, and pads on the left."""
    write = pipeline("text-generation", model=str(storyteller.folder), device="cpu")
    found = write(TEXTS, batch_size=batch_size, **GREEDY)
    expected = [ours(storyteller, text) for text in TEXTS]
    assert [answers[0]["generated_text"].strip() for answers in found] == expected
    assert len(set(expected)) == len(TEXTS)


def test_the_full_text_begins_with_the_prompt_and_shows_no_special_token(storyteller: Storyteller) -> None:
    write = pipeline("text-generation", model=str(storyteller.folder), device="cpu")
    found = write("anna ", do_sample=False, max_new_tokens=12)[0]["generated_text"]  # it is glued on: hence the space
    assert found.split() == ["anna", *ours(storyteller, "anna").split()]


def test_auto_classes_find_model_and_tokenizer(storyteller: Storyteller) -> None:
    tokenizer = AutoTokenizer.from_pretrained(storyteller.folder)
    model = AutoModelForCausalLM.from_pretrained(storyteller.folder)
    read = tokenizer(["anna", "felix paints the"], padding=True, return_tensors="pt")
    assert read["input_ids"][:, -1].ne(tokenizer.pad_token_id).all()  # padded on the left
    assert read["input_ids"][1, 0] == tokenizer.bos_token_id
    written = model.generate(
        input_ids=read["input_ids"], attention_mask=read["attention_mask"], do_sample=False, max_new_tokens=12
    )
    new = written[:, read["input_ids"].shape[1] :]
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in new]
    assert texts == [ours(storyteller, text) for text in ("anna", "felix paints the")]


def test_tokens_of_a_reloaded_tokenizer_begin_with_bos_once(storyteller: Storyteller, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(storyteller.folder)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    plain = storyteller.tokenizer.encode("anna sells <bos>")
    for one in (tokenizer, again):
        assert one("anna sells <bos>")["input_ids"] == [2, *plain]
        assert one("anna sells <bos>", add_special_tokens=False)["input_ids"] == plain
    assert 2 not in plain


@pytest.mark.slow
def test_importing_hugging_face_is_all_that_auto_classes_need(storyteller: Storyteller) -> None:
    """In a fresh process: without the import the type is unknown, with it the folder loads."""
    script = (
        "import sys\n"
        "from transformers import AutoModelForCausalLM\n"
        "try: AutoModelForCausalLM.from_pretrained(sys.argv[1])\n"
        "except ValueError as error: print('rnnlm' in str(error))\n"
        "import rnnlm.models.hugging_face\n"
        "print(type(AutoModelForCausalLM.from_pretrained(sys.argv[1])).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(storyteller.folder)], capture_output=True, text=True, timeout=600
    )
    assert done.stdout.split() == ["True", "RnnlmForCausalLM"], done.stderr


def test_a_model_saved_again_writes_the_same_text(storyteller: Storyteller, tmp_path: Path) -> None:
    """save_pretrained of what from_pretrained read: the same weights, settings of generation and text."""
    model = AutoModelForCausalLM.from_pretrained(storyteller.folder)
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])
    assert again.generation_config.eos_token_id == 3
    ids = torch.tensor([storyteller.prompts()[0]])
    assert torch.equal(
        again.generate(ids, do_sample=False, max_new_tokens=12), model.generate(ids, do_sample=False, max_new_tokens=12)
    )
