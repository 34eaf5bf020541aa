"""The program inside a registered model. It loads the model and predicts on machines without rnnlm.

MLflow runs this file ("models from code") with a bundle (safetensors, configuration, tokenizer) and a copy of the rnnlm
modules that the model needs (bundle.portable_modules). The modules are imported from the copy under a private name. No
pickle is used.
"""

import importlib
import math
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import mlflow
from mlflow.pyfunc import PythonModel, PythonModelContext
from pydantic import BaseModel, ConfigDict, Field, model_validator

SAMPLING_DEFAULTS = {"maximum_tokens": 40, "temperature": 0.8, "top_k": 0, "top_p": 0.95, "seed": 0}
MODULES = (  # The modules of rnnlm that load_context uses.
    "generation.sampling",
    "models.saved_model",
    "models.saved_config",
    "generation.inference_weights",
    "tokenizers.text_tokenizer",
    "evaluation.document_losses",
    "metrics",
)
# The smallest temperature other than 0. Logits divided by a smaller one could overflow float32.
LOWEST_TEMPERATURE = 0.01


class PredictionRequest(BaseModel):
    """One row of the input, with either a prompt to continue or a text to score.

    MLflow validates each row, and derives the signature of the model from this class.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    prompt: str | None = Field(None, max_length=100_000)  # An empty prompt starts a new sequence.
    text: str | None = Field(None, max_length=10_000_000)  # The following fields are allowed only with a prompt.
    maximum_tokens: int | None = Field(None, ge=1, le=100_000)
    temperature: float | None = Field(None, ge=0, le=100)  # At temperature 0, decoding is greedy.
    top_k: int | None = Field(None, ge=0, lt=2**31)  # The value 0 means no limit.
    top_p: float | None = Field(None, ge=1e-6, le=1)  # The value 1 means no limit.
    seed: int | None = Field(None, ge=0, lt=2**63)

    @model_validator(mode="before")
    @classmethod
    def drop_missing_cells(cls, row: Any) -> Any:
        """Remove missing values.

        In a data frame a missing value is NaN, which converts a column of integers to floats.
        """
        if not isinstance(row, dict):
            return row
        row = {name: value for name, value in row.items() if not (isinstance(value, float) and math.isnan(value))}
        for name in ("maximum_tokens", "top_k", "seed"):
            if isinstance(row.get(name), float) and row[name].is_integer():
                row[name] = int(row[name])
        return row

    @model_validator(mode="after")
    def require_prompt_or_text(self) -> "PredictionRequest":
        if (self.prompt is None) == (self.text is None):
            raise ValueError("expected either a prompt to continue or a text to score")
        given = sorted(self.model_dump(exclude={"prompt", "text"}, exclude_none=True))
        if self.text is not None and given:
            raise ValueError(f"a text to score takes no {', '.join(given)}")
        if self.temperature and self.temperature < LOWEST_TEMPERATURE:
            raise ValueError(f"temperature must be 0 (greedy) or at least {LOWEST_TEMPERATURE}")
        return self


class ServedModel(PythonModel):
    """A model that MLflow serves. Its method predict() continues prompts and scores texts.

    `predict([{"prompt": …}, {"text": …}])`, or a data frame with such columns, returns a list with one dictionary for
    each row. For a prompt it is `{"text": …}` with the continuation; for a text see score().
    """

    def load_context(self, context: PythonModelContext) -> None:
        bundle, code = Path(context.artifacts["bundle"]), Path(context.artifacts["code"])
        modules = load_modules(code, *MODULES)
        self.sampling, saved_model, saved_config, inference_weights, text_tokenizer, *scoring = modules
        self.document_losses, self.metrics = scoring
        self.model = saved_model.read_saved_model(bundle)
        self.weights = inference_weights.InferenceWeights(self.model)  # The weights are prepared once for all prompts.
        self.tokenizer = text_tokenizer.load_tokenizer(bundle)
        # The settings by which the model's text is split into rows; see document_losses.Cut.
        self.cut = saved_config.read_saved_cut(bundle)

    def predict(  # type: ignore[override]  # MLflow reads the signature off these types
        self, context: PythonModelContext, model_input: list[PredictionRequest], params: dict[str, Any] | None = None
    ) -> list[dict[str, object]]:
        return [
            {"text": self.continuation(request)} if request.text is None else self.score(request.text)
            for request in model_input
        ]

    def continuation(self, request: PredictionRequest) -> str:
        """Return the continuation of the prompt, without the prompt."""
        prompt_ids = [self.tokenizer.bos_id, *self.tokenizer.encode(request.prompt)]
        given = request.model_dump(exclude={"prompt", "text"}, exclude_none=True)
        settings = self.sampling.Sampling(**SAMPLING_DEFAULTS | given)
        sampling = self.sampling.text_sampling(settings, self.tokenizer.unk_id)
        ids = self.sampling.continue_ids(self.weights, prompt_ids, sampling, self.tokenizer.eos_id)
        return str(self.tokenizer.decode(ids)).strip()

    def score(self, text: str) -> dict[str, object]:
        """Return the loss of a text as JSON. Values are None if the text has no token or byte to score.

        Only bits_per_byte includes information that the tokens lack, such as the spelling of unknown words.
        """
        # An unpaired surrogate, which UTF-8 cannot encode, is replaced by a question mark.
        text = text.encode("utf-8", "replace").decode("utf-8")
        (loss,) = self.document_losses.document_losses(self.model, self.tokenizer, [text], self.cut)
        tokens = zip(self.tokenizer.pieces(loss.token_ids), loss.nll_nats.tolist(), strict=True)
        return {
            "log_probability_nats": -loss.summed_nll_nats,
            "perplexity": self.metrics.finite_or_none(loss.perplexity),
            "bits_per_byte": self.metrics.finite_or_none(loss.bits_per_byte),
            "tokens": [{"token": piece, "log_probability_nats": -nll} for piece, nll in tokens],
        }


def load_modules(code: Path, *names: str) -> list[ModuleType]:
    """Load modules of the package in `code`, under a name derived from the package's content.

    With such names a process can use two versions of a module at the same time.
    """
    content = b"".join(path.read_bytes() for path in sorted(code.rglob("*.py")))
    package = f"rnnlm_served_{sha256(content).hexdigest()[:12]}"
    if package not in sys.modules:
        sys.modules[package] = ModuleType(package)
    # The path is set again, because the package may have been loaded from a folder that was deleted since.
    sys.modules[package].__path__ = [str(code)]
    return [importlib.import_module(f"{package}.{name}") for name in names]


mlflow.models.set_model(ServedModel())
