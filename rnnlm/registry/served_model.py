"""The registered model's own program: it loads and answers where this repository is not installed.

MLflow runs this file ("models from code") beside a bundle (safetensors, configuration, tokenizer) and copies
of the torch-only modules elman.py and sampling.py. So it imports nothing of ours, and no pickle is involved.
"""

import hashlib
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import mlflow
from mlflow.pyfunc import PythonModel, PythonModelContext
from pydantic import BaseModel, ConfigDict, Field, model_validator


class Request(BaseModel):
    """One row of the input. MLflow checks each row against it and derives the model's signature from it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    prompt: str  # "" begins a sequence from nothing
    maximum_tokens: int | None = Field(None, ge=1, le=100_000)
    temperature: float | None = Field(None, ge=0)  # 0: greedy
    top_k: int | None = Field(None, ge=0)  # 0: off
    top_p: float | None = Field(None, gt=0, le=1)  # 1: off
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


def is_missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


DEFAULTS = {"maximum_tokens": 40, "temperature": 0.8, "top_k": 0, "top_p": 0.95, "seed": 0}


class ServedModel(PythonModel):
    """`predict([{"prompt": …}, …])`, or a data frame of such columns → a list of `{"text": …}`, one each."""

    def load_context(self, context: PythonModelContext) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        bundle, code = Path(context.artifacts["bundle"]), Path(context.artifacts["code"])
        self.sampling = load_module(code / "sampling.py")
        config = json.loads((bundle / "config.json").read_text(encoding="utf-8"))
        self.model = load_module(code / "elman.py").ElmanLanguageModel(
            vocabulary_size=config["vocab_size"],
            hidden_size=config["hidden_size"],
            embedding_size=config["embedding_size"],
            layers=config["num_hidden_layers"],
            nonlinearity=config["nonlinearity"],
            tie_embeddings=config["tie_word_embeddings"],
            backend=config["backend"],
            pad_id=config["pad_token_id"],
            bos_id=config["bos_token_id"],
        )
        self.bos_id, self.eos_id = config["bos_token_id"], config["eos_token_id"]
        self.unwritten = {config["pad_token_id"], self.bos_id, self.eos_id}
        weights = {
            name.removeprefix("language_model."): tensor  # the Hugging Face face's name for it
            for name, tensor in load_file(bundle / "model.safetensors").items()
        }
        if config["tie_word_embeddings"]:  # one matrix, saved once
            weights["head.weight"] = weights["embedding.weight"]
        self.model.load_state_dict(weights)
        self.model.eval()
        self.tokenizer = Tokenizer.from_file(str(bundle / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = True  # special tokens never come from text
        self.kind = json.loads((bundle / "rnnlm_tokenizer.json").read_text(encoding="utf-8"))["kind"]

    def predict(  # type: ignore[override]  # MLflow reads the signature off these types
        self, context: PythonModelContext, model_input: list[Request], params: dict[str, Any] | None = None
    ) -> list[dict[str, str]]:
        return [{"text": self.answer(request)} for request in model_input]

    def answer(self, request: Request) -> str:
        """The continuation alone, without the prompt."""
        prompt_ids = [self.bos_id, *self.tokenizer.encode(request.prompt, add_special_tokens=False).ids]
        given = request.model_dump(exclude={"prompt"}, exclude_none=True)
        sampling = self.sampling.Sampling(**DEFAULTS | given)
        ids = self.sampling.continue_ids(self.model, prompt_ids, sampling, self.eos_id)
        written = [token_id for token_id in ids if token_id not in self.unwritten]
        if self.kind == "word":
            return " ".join(str(self.tokenizer.id_to_token(token_id)) for token_id in written)
        return str(self.tokenizer.decode(written, skip_special_tokens=False)).strip()


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
