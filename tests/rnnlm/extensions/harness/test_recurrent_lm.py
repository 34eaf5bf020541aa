"""The harness can load a model under the name `rnnlm`, and call it with each type of request."""

import importlib
import json
import math
import shutil
from pathlib import Path

import pytest

lm_eval = pytest.importorskip("lm_eval", reason="extra lm-eval")

from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.registry import get_model  # noqa: E402

from rnnlm.config import ModelKind  # noqa: E402
from rnnlm.errors import ConfigError, CorpusError, ModelError  # noqa: E402
from rnnlm.extensions.harness.harness_config import HarnessConfig  # noqa: E402
from rnnlm.extensions.harness.harness_run import load_tasks, run_harness  # noqa: E402
from rnnlm.extensions.harness.recurrent_lm import RecurrentLM  # noqa: E402
from rnnlm.models.model_factory import save_model  # noqa: E402
from rnnlm.storage.home import Home  # noqa: E402
from rnnlm.storage.records import CorpusRecord  # noqa: E402
from rnnlm.tokenizers.text_tokenizer import EOS, PLAIN_END_BITS, PLAIN_GAP_BITS, UNK, load_tokenizer  # noqa: E402
from tests.configs import KINDS, random_model  # noqa: E402

QUESTIONS = [  # In the grammar of the toy corpus, a verb follows an animal, and an article follows a verb.
    {"question": "the cat", "choices": ["house", "sees"], "answer": 1},
    {"question": "the bird likes", "choices": ["the", "river"], "answer": 0},
    # Neither choice agrees with the grammar, so the answer is arbitrary.
    {"question": "the fox follows the", "choices": ["near", "."], "answer": 1},
]
CHOICE = """
task: toy-choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}, cache_dir: {cache}}}
output_type: multiple_choice
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""
WRITING = """
task: toy-writing
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}, cache_dir: {cache}}}
output_type: generate_until
test_split: test
doc_to_text: question
doc_to_target: "."
generation_kwargs: {{until: ["\\n"], max_gen_toks: 16, do_sample: false}}
filter_list: [{{name: last, filter: [{{function: regex, regex_pattern: "([.])$"}}, {{function: take_first}}]}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


@pytest.fixture
def model(home: Home, stream_folder: Path) -> RecurrentLM:
    return RecurrentLM(str(stream_folder), batch_size=2)


def requests(kind: str, *arguments: tuple[object, ...]) -> list[Instance]:
    return [Instance(kind, {}, one, index) for index, one in enumerate(arguments)]


def task_file(folder: Path, template: str) -> str:
    questions = folder / "questions.jsonl"
    questions.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS), encoding="utf-8")
    path = folder / "task.yaml"
    path.write_text(template.format(file=questions, cache=folder / "cache"), encoding="utf-8")
    return str(path)


def test_the_harness_finds_it_by_name(home: Home, stream_folder: Path) -> None:
    made = get_model("rnnlm").create_from_arg_string(f"model={stream_folder}", {"batch_size": 3})
    assert isinstance(made, RecurrentLM)
    assert (made.batch_size, made.cut.mode) == (3, "stream")
    assert get_model("rnnlm").create_from_arg_obj({"model": str(stream_folder)}, {"device": None}).batch_size == 64
    with pytest.raises(ModelError, match="no model, run or folder"):
        RecurrentLM("/no/such/run")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_answers_every_type_of_request(
    home: Home, stream_folder: Path, tmp_path: Path, kind: ModelKind
) -> None:
    """Every kind of model is loaded from its folder and handles every type of request."""
    folder = shutil.copytree(stream_folder, tmp_path / "model")
    network = random_model(kind, load_tokenizer(folder).vocabulary_size)
    # Without these tokens, the response consists of words that can be tokenized again.
    network.head.bias.data[[UNK, EOS]] -= 100.0
    save_model(network, folder)
    model = RecurrentLM(str(folder), batch_size=2)
    text = "the cat sees the dog near the river .\n" * 40
    (rolling,) = model.loglikelihood_rolling(requests("loglikelihood_rolling", (text,)))
    pairs = [("", text[: len(text) // 2]), (text[: len(text) // 2], text[len(text) // 2 :])]
    (first, _), (second, _) = model.loglikelihood(requests("loglikelihood", *pairs))
    gaps_nats = 40 * (8 * PLAIN_GAP_BITS + 2 * PLAIN_END_BITS) * math.log(2)
    assert rolling == pytest.approx(first + second - gaps_nats, rel=1e-6)
    settings = {"until": ["nowhere"], "max_gen_toks": 3, "do_sample": False}
    (answer,) = model.generate_until(requests("generate_until", ("the cat", settings)))
    other = " tree" if answer.startswith(" house") else " house"
    likelihoods = model.loglikelihood(requests("loglikelihood", ("the cat", answer), ("the cat", other)))
    assert [greedy for _, greedy in likelihoods] == [True, False]


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, {"add_bos_token": False}])
def test_the_harness_s_own_transformers_model_is_refused(
    home: Home, stream_folder: Path, tmp_path: Path, settings: dict[str, object]
) -> None:
    """The harness's own `hf` model is refused, because its perplexity would be infinite or three times too low."""
    # This import registers the model type, without which transformers could not load the folder.
    importlib.import_module("rnnlm.extensions.exports.hugging_face")
    arguments = {"pretrained": str(stream_folder), "device": "cpu"} | settings
    with pytest.raises(ModelError, match="rnnlm lm-eval MODEL"):
        lm_eval.simple_evaluate("hf", arguments, tasks=load_tasks([task_file(tmp_path, CHOICE)]))


def test_a_task_of_writing_runs(home: Home, stream_folder: Path, tmp_path: Path) -> None:
    """In a text-generation task, a generated sentence ends with a full stop, like every sentence of the toy corpus."""
    (match,) = run_harness(home, stream_folder, HarnessConfig(tasks=(task_file(tmp_path, WRITING),))).metrics
    assert (match.metric, match.filter, match.value) == ("exact_match", "last", 1.0)


@pytest.mark.slow  # The test is slow, because the harness reads 13,000 task files.
def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(ConfigError, match="no-such-task"):
        load_tasks(["no-such-task"])


def test_a_corpus_with_splits_is_refused_as_a_file(home: Home, stream_folder: Path, toy_corpus: CorpusRecord) -> None:
    with pytest.raises(CorpusError, match=r"--file .*test\.txt"):
        run_harness(home, stream_folder, HarnessConfig(file=str(toy_corpus.folder)))
