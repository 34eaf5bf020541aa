"""A run's model folder can be loaded by transformers' own functions."""

import subprocess
import sys

import pytest
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
    """The text-generation pipeline of transformers writes the same text as rnnlm.

    The pipeline adds `<bos>` and pads on the left.
    """
    write = pipeline("text-generation", model=str(storyteller.folder), device="cpu")
    found = write(TEXTS, batch_size=batch_size, **GREEDY)
    expected = [ours(storyteller, text) for text in TEXTS]
    assert [answers[0]["generated_text"].strip() for answers in found] == expected
    assert len(set(expected)) == len(TEXTS)


def test_auto_classes_find_model_and_tokenizer(storyteller: Storyteller) -> None:
    tokenizer = AutoTokenizer.from_pretrained(storyteller.folder)
    model = AutoModelForCausalLM.from_pretrained(storyteller.folder)
    read = tokenizer(["anna", "felix paints the"], padding=True, return_tensors="pt")
    assert read["input_ids"][:, -1].ne(tokenizer.pad_token_id).all()  # The texts are padded on the left.
    assert read["input_ids"][1, 0] == tokenizer.bos_token_id
    written = model.generate(
        input_ids=read["input_ids"], attention_mask=read["attention_mask"], do_sample=False, max_new_tokens=12
    )
    new = written[:, read["input_ids"].shape[1] :]
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in new]
    assert texts == [ours(storyteller, text) for text in ("anna", "felix paints the")]


@pytest.mark.slow
def test_importing_hugging_face_is_all_that_auto_classes_need(storyteller: Storyteller) -> None:
    """A new process needs only to import rnnlm.extensions.exports.hugging_face to load a folder with Auto classes."""
    script = (
        "import sys\n"
        "from transformers import AutoModelForCausalLM\n"
        "try: AutoModelForCausalLM.from_pretrained(sys.argv[1])\n"
        "except ValueError as error: print('rnnlm' in str(error))\n"
        "import rnnlm.extensions.exports.hugging_face\n"
        "print(type(AutoModelForCausalLM.from_pretrained(sys.argv[1])).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(storyteller.folder)], capture_output=True, text=True, timeout=600
    )
    assert done.stdout.split() == ["True", "RnnlmForCausalLM"], done.stderr
