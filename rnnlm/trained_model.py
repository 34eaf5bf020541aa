"""A trained model in Python, which scores, explains and continues texts. `rnnlm.load` and `rnnlm.train` return one.

The commands `rnnlm score`, `rnnlm generate` and `rnnlm explain` give the same results.
"""

import html
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from rnnlm.config import SCORED_ROWS, SHARD_DOCUMENTS, GenerationConfig
from rnnlm.config.kinds import kind_of
from rnnlm.config.validation import validated
from rnnlm.errors import ConfigError, TextError, close_to
from rnnlm.evaluation.document_figures import figures, tail_dtype, with_line_end
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.evaluation.explanation import explain
from rnnlm.evaluation.text_tokens import scored_rows, spelling, token_positions
from rnnlm.generation.generate import continue_prompts
from rnnlm.models.devices import choose_device
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.registry.model_lookup import full_reference, model_folder, registered_version
from rnnlm.reports.explanation_page import explanation_value
from rnnlm.storage.home import Home, read_json
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.tokenizers.text_tokenizer import EOS, LONE_SURROGATE, UNK, load_tokenizer

if TYPE_CHECKING:
    from rnnlm.models.language_model import LanguageModel

# The columns of the scores, which have the same names in the output of `rnnlm score`.
SCORE_COLUMNS = ["bits_per_byte", "perplexity", "tokens", "unknown_rate"]
SAMPLING_SETTINGS = [name for name in GenerationConfig.model_fields if name not in ("prompts", "seed")]


@dataclass(frozen=True)
class HeldOutScore:
    """The scores on the test split of the model's own corpus. A score is None if it is not stored on this machine."""

    perplexity: float | None = None
    bits_per_byte: float | None = None


class Model:
    """A trained model with its tokenizer.

    `name` is the reference by which the model was found, such as models:/rnnlm-notes/3 or a folder. `folder` contains
    its files. `test` is its score on the test split.
    """

    def __init__(self, name: str, folder: Path, test: HeldOutScore) -> None:
        self.name, self.folder, self.test = name, folder, test
        self._device = choose_device("auto")
        self._model = load_model(folder, str(self._device))
        self._tokenizer, self._cut = load_tokenizer(folder), read_training_provenance(folder).cut

    def score(self, texts: str | Iterable[str]) -> pd.DataFrame:
        """Return scores of how well the model predicts each text, with one row per text in the given order.

        The columns are text; bits_per_byte (lower is better, comparable between models); perplexity per token; tokens,
        including the end of each line; and unknown_rate, the fraction of tokens that are not in the vocabulary. The
        scores of a text without anything to predict are NaN. Raise TextError if a text is not a string.
        """
        given = checked_texts(texts)
        remaining, tables = iter(given), []
        # The texts are divided into shards of the same size as by `rnnlm score`.
        while shard := list(islice(remaining, SHARD_DOCUMENTS)):
            tables.append(self._scores([with_line_end(readable(text)) for text in shard]))
        scores = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=SCORE_COLUMNS, dtype=float)
        scores.insert(0, "text", pd.Series(given, dtype=object))
        return scores

    def _scores(self, texts: list[str]) -> pd.DataFrame:
        precision = tail_dtype(self._device)
        losses = document_losses(self._model, self._tokenizer, texts, self._cut, SCORED_ROWS, precision)
        return pd.DataFrame({**figures(losses), "tokens": losses.tokens})[SCORE_COLUMNS]

    def perplexity(self, text: str) -> float:
        """Return the perplexity of one text, per token. Raise TextError if it contains nothing to predict.

        The result equals the one that `rnnlm evaluate` prints for a file with this text, unless the text has lines of
        more than 8,192 characters, which are divided in a corpus.
        """
        (row,) = self.score([text]).itertuples()
        if math.isnan(row.perplexity):
            raise TextError(
                f"{shown(text)}: there is nothing to predict in this text; give a text with at least one word"
            )
        return float(row.perplexity)

    def generate(self, prompt: str = "", n: int = 1, seed: int = 0, **settings: Any) -> list[str]:
        """Return n texts that begin with the prompt. The same call returns the same texts.

        The seeds of the texts are seed, seed + 1 and so on. `settings` are the settings that `rnnlm generate` takes:
        temperature (0.8; 0 means greedy), maximum_tokens (40), minimum_tokens, top_k, top_p and unknown. Raise
        ConfigError for another name or a value out of bounds.
        """
        (prompt,) = checked_texts([prompt])
        for name in settings:
            if name not in SAMPLING_SETTINGS:
                near = close_to(name, SAMPLING_SETTINGS)
                raise ConfigError(f"generate has no setting {name!r}{near}\nIt takes {', '.join(SAMPLING_SETTINGS)}.")
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ConfigError(f"n: expected a whole number of texts, at least 1; got {n!r}")
        config = validated(GenerationConfig, {"seed": seed, **settings})
        samples = continue_prompts(self._network, self._tokenizer, [prompt] * n, config)
        return [sample.whole for sample in samples]

    def explain(self, text: str) -> pd.DataFrame:
        """Return how the model reads a text, with one row for each step.

        The columns have the names that `rnnlm explain --json` prints.

        The columns include input_text, target_text (the token to predict), nll_nats (its loss), rank and probability of
        the target, and alternatives (the most probable tokens). There are no rows if there is nothing to predict.
        """
        (text,) = checked_texts([text])
        explanation = explain(self._network, self._tokenizer, self._cut, text)
        steps = explanation_value(explanation)["steps"]
        return pd.DataFrame(steps).drop(columns="state", errors="ignore")

    def tokens(self, text: str) -> list[str]:
        """Return the tokens that the model must predict. Their number equals `tokens` in the result of score().

        <eos> ends a line, and <unk> is a word that is not in the vocabulary.
        """
        (text,) = checked_texts([text])
        text = with_line_end(readable(text))
        ids = (int(target) for row in scored_rows(self._tokenizer, self._cut, text) for target in row[1:])
        places = token_positions(self._tokenizer, self._cut, text)
        return [
            spelling(self._tokenizer, token_id) if token_id in (EOS, UNK) or start == end else text[start:end]
            for token_id, (start, end) in zip(ids, places, strict=True)
        ]

    @cached_property
    def _network(self) -> "LanguageModel":
        """The model on the CPU, which `rnnlm generate` and `rnnlm explain` also use."""
        return self._model if self._device.type == "cpu" else load_model(self.folder)

    @cached_property
    def facts(self) -> dict[str, str]:
        """Short descriptions of the model, its tokenizer, its corpus and its scores."""
        model, tokenizer = self._model, self._tokenizer
        corpus = (read_json(self.folder / "rnnlm.json") or {}).get("corpus_name")
        facts = {
            "model": shape(model),
            "tokenizer": f"{tokenizer.kind}, {tokenizer.vocabulary_size:,} tokens",
            "trained on": str(corpus or "unknown"),
        }
        if self.test.perplexity is not None:
            facts["test perplexity"] = f"{self.test.perplexity:.2f}"
        if self.test.bits_per_byte is not None:
            facts["test bits per byte"] = f"{self.test.bits_per_byte:.3f}"
        return facts

    def __repr__(self) -> str:
        perplexity = self.facts.get("test perplexity")
        end = f", test perplexity {perplexity}" if perplexity else ""
        return f"<rnnlm.Model {self.name}: {self.facts['model']}{end}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in {"name": self.name, **self.facts}.items()
        )
        return f"<table>{rows}</table>"


def open_model(home: Home, wanted: str | None) -> Model:
    """Return the model to which `wanted` refers now; see model_lookup.full_reference().

    Raise ModelError if there is no such model.
    """
    reference = full_reference(home, wanted)
    folder = model_folder(home, reference)
    if not reference.startswith("models:"):
        test = RunFolder(folder.parent).test_scores
        return Model(reference, folder, HeldOutScore(test.get("perplexity"), test.get("bits_per_byte")))
    version = registered_version(home, reference).listed()
    name = f"models:/{version.name}/{version.version}"
    return Model(name, folder, HeldOutScore(version.test_perplexity, version.bits_per_byte))


def shape(model: "LanguageModel") -> str:
    """Return a text such as `Elman network, 1 × 256, mixed with 5-gram counts`."""
    mixture = model.mixture
    counts = [f"{mixture.counts.order}-gram counts"] if mixture is not None and mixture.uses_counts else []
    if mixture is not None and mixture.is_alone:
        return counts[0]
    first, *others = model.networks
    size = f"{kind_of(first.config['kind']).name}, {len(first.stack.cells)} × {first.stack.hidden_size}"
    parts = [f"ensemble of {1 + len(others)} networks" if others else size]
    return ", mixed with ".join(parts + counts)


def checked_texts(texts: Any) -> list[str]:
    """Return the texts as a list. A single string becomes a list of one text.

    Raise TextError if a text is not a string. The message contains its position.
    """
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes | bytearray) or not isinstance(texts, Iterable):
        raise TextError(f"expected a string or a list of strings, got {type(texts).__name__}; decode bytes first")
    return list(strings(texts))


def strings(texts: Iterable[Any]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TextError(
                f"text {number}: expected a string, got {type(text).__name__} ({shown(text)});\n"
                "leave out missing values, and decode bytes"
            )
        yield text


def readable(text: str) -> str:
    """Return the text with a replacement for each character that UTF-8 cannot encode."""
    return LONE_SURROGATE.sub("\ufffd", text)


def shown(text: Any) -> str:
    """Return the beginning of the text, at most 40 characters, for an error message."""
    return f"{text!r:.40}"
