"""The registered model's own program: it loads and answers where this repository is not installed.

MLflow runs this file ("models from code") beside a bundle (safetensors, configuration, tokenizer) and copies of
elman.py, sampling.py, inference_weights.py and text_tokenizer.py, which need only torch or tokenizers. It imports
nothing of ours and uses no pickle.
"""

import hashlib
import importlib.util
import json
import math
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import mlflow
from mlflow.pyfunc import PythonModel, PythonModelContext
from pydantic import BaseModel, ConfigDict, Field, model_validator

DEFAULTS = {"maximum_tokens": 40, "temperature": 0.8, "top_k": 0, "top_p": 0.95, "seed": 0}
LOWEST_TEMPERATURE = 0.01  # but 0: below it the quotients leave the range of a float32
ROWS, WINDOW, SCORED = 16, 1_024, 128  # rows read together, tokens of each at once, of which so many are scored at once


class Request(BaseModel):
    """One row of the input: a prompt to continue, or a text to score.

    MLflow checks each row against it and derives the model's signature from it.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    prompt: str | None = Field(None, max_length=100_000)  # characters; "" begins a sequence from nothing
    text: str | None = Field(None, max_length=10_000_000)  # characters; takes none of the fields below
    maximum_tokens: int | None = Field(None, ge=1, le=100_000)
    temperature: float | None = Field(None, ge=0, le=100)  # 0: greedy
    top_k: int | None = Field(None, ge=0, lt=2**31)  # 0: off
    top_p: float | None = Field(None, ge=1e-6, le=1)  # 1: off
    seed: int | None = Field(None, ge=0, lt=2**63)

    @model_validator(mode="before")
    @classmethod
    def undo_the_data_frame(cls, row: Any) -> Any:
        """In a data frame a missing cell is NaN, and it turns the column's integers into floats."""
        if not isinstance(row, dict):
            return row
        row = {name: value for name, value in row.items() if not is_missing(value)}
        for name in ("maximum_tokens", "top_k", "seed"):
            if isinstance(row.get(name), float) and row[name].is_integer():
                row[name] = int(row[name])
        return row

    @model_validator(mode="after")
    def asks_one_thing(self) -> "Request":
        if (self.prompt is None) == (self.text is None):
            raise ValueError("expected either a prompt to continue or a text to score")
        given = sorted(self.model_dump(exclude={"prompt", "text"}, exclude_none=True))
        if self.text is not None and given:
            raise ValueError(f"a text to score takes no {', '.join(given)}")
        if self.temperature and self.temperature < LOWEST_TEMPERATURE:
            raise ValueError(f"temperature must be 0 (greedy) or at least {LOWEST_TEMPERATURE}")
        return self


def is_missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


class ServedModel(PythonModel):
    """`predict([{"prompt": …}, {"text": …}])`, or a data frame of such columns → a list of dictionaries, one each.

    For a prompt `{"text": …}`, the continuation; for a text what score() says.
    """

    def load_context(self, context: PythonModelContext) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        bundle, code = Path(context.artifacts["bundle"]), Path(context.artifacts["code"])
        self.sampling = load_module(code / "sampling.py")
        config = read_json(bundle / "config.json")
        self.model = load_module(code / "elman.py").ElmanLanguageModel(
            vocabulary_size=config["vocab_size"],
            hidden_size=config["hidden_size"],
            embedding_size=config["embedding_size"],
            layers=config["num_hidden_layers"],
            nonlinearity=config["nonlinearity"],
            tie_embeddings=config["tie_word_embeddings"],
            backend=config["backend"],
            diagonal=config["diagonal"],
            residual=config["residual"],
            pad_id=config["pad_token_id"],
            bos_id=config["bos_token_id"],
        )
        weights = {
            name.removeprefix("language_model."): tensor  # the Hugging Face face's name for it
            for name, tensor in load_file(bundle / "model.safetensors").items()
        }
        if config["tie_word_embeddings"]:  # one matrix, saved once
            weights["head.weight"] = weights["embedding.weight"]
        self.model.load_state_dict(weights)
        self.model.eval()
        self.weights = load_module(code / "inference_weights.py").InferenceWeights(self.model)  # once, for all prompts
        settings = read_json(bundle / "rnnlm_tokenizer.json")
        self.tokenizer = load_module(code / "text_tokenizer.py").TextTokenizer(
            Tokenizer.from_file(str(bundle / "tokenizer.json")),
            settings["kind"],
            settings["unknown_literal"],
            settings["splitting"],
        )
        self.cut = read_json(bundle / "rnnlm.json")  # mode and context_length: how the training text was cut

    def predict(  # type: ignore[override]  # MLflow reads the signature off these types
        self, context: PythonModelContext, model_input: list[Request], params: dict[str, Any] | None = None
    ) -> list[dict[str, object]]:
        return [
            {"text": self.continuation(request)} if request.text is None else self.score(request.text)
            for request in model_input
        ]

    def continuation(self, request: Request) -> str:
        """The continuation alone, without the prompt."""
        prompt_ids = [self.tokenizer.bos_id, *self.tokenizer.encode(request.prompt)]
        given = request.model_dump(exclude={"prompt", "text"}, exclude_none=True)
        sampling = self.sampling.Sampling(**DEFAULTS | given)
        ids = self.sampling.continue_ids(self.weights, prompt_ids, sampling, self.tokenizer.eos_id)
        return str(self.tokenizer.decode(ids)).strip()

    def score(self, text: str) -> dict[str, object]:
        """What document_losses.py says of the text, as JSON: natural logarithms, None where nothing is there.

        bits_per_byte, and nothing else, includes what the tokens do not say of the text, such as unknown words.
        """
        text = text.encode("utf-8", "replace").decode("utf-8")  # half a character cannot be written as UTF-8
        lines = text.removesuffix("\n").split("\n")
        rows = list(self.rows(lines))
        nll_nats = self.nll_of(rows)
        token_ids = [token_id for row in rows for token_id in row[1:]]
        total = math.fsum(nll_nats)
        bits = total / math.log(2) + math.fsum(map(self.restoration_bits, lines))
        byte_count = len(text.encode())
        return {
            "log_probability_nats": -total,
            "perplexity": math.exp(min(700.0, total / len(nll_nats))) if nll_nats else None,
            "bits_per_byte": bits / byte_count if byte_count else None,
            "tokens": [
                {"token": piece, "log_probability_nats": -nll}
                for piece, nll in zip(self.tokenizer.pieces(token_ids), nll_nats, strict=True)
            ],
        }

    def restoration_bits(self, line: str) -> float:
        ids = self.tokenizer.encode(line)
        unknown = ids.count(self.tokenizer.unk_id)
        return float(self.tokenizer.restoration_bits(line, len(ids), unknown, self.cut["mode"] == "sentence"))

    def rows(self, lines: list[str]) -> Iterator[list[int]]:
        """Token ids, cut as the training text was; the first of each row is context, the others are predicted.

        `stream`: one running text. `sentence`: a row a line, several where it is longer than the context; none for a
        line without tokens.
        """
        bos, eos = self.tokenizer.bos_id, self.tokenizer.eos_id
        encoded = self.tokenizer.encode_lines(lines)
        if self.cut["mode"] == "stream":
            yield [bos, *chain.from_iterable([*line, eos] for line in encoded)]
            return
        length = self.cut["context_length"]
        for line in encoded:
            whole = [bos, *line, eos] if line else []
            for first in range(0, len(whole) - 1, length):
                yield whole[first : first + length + 1]

    def nll_of(self, rows: list[list[int]]) -> list[float]:
        """Negative log-likelihood in nats of each predicted token, row after row; the state is zero before each row."""
        import torch
        from torch.nn.functional import cross_entropy
        from torch.nn.utils.rnn import pad_sequence

        pad, found = self.tokenizer.pad_id, []
        with torch.inference_mode():
            for first in range(0, len(rows), ROWS):
                some = [torch.tensor(row) for row in rows[first : first + ROWS]]
                token_ids, state, losses = pad_sequence(some, batch_first=True, padding_value=pad), None, []
                for window in range(0, token_ids.shape[1] - 1, WINDOW):
                    read = token_ids[:, window : window + WINDOW + 1]
                    hidden, state = self.model.hidden(read[:, :-1], state)
                    pieces = zip(hidden.flatten(0, 1).split(SCORED), read[:, 1:].flatten().split(SCORED), strict=True)
                    scored = [cross_entropy(self.model.logits(h), ids, reduction="none") for h, ids in pieces]
                    losses.append(torch.cat(scored).view_as(read[:, 1:]))
                found += torch.cat(losses, dim=1)[token_ids[:, 1:] != pad].tolist()
        return found


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def load_module(path: Path) -> ModuleType:
    """The module in a file, named after its content: two versions can live in one process."""
    name = f"rnnlm_served_{path.stem}_{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up there
        spec.loader.exec_module(module)
    return sys.modules[name]


mlflow.models.set_model(ServedModel())
