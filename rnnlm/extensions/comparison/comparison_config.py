"""Options of `rnnlm compare`."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from rnnlm.config import CorpusConfig, ModelKind, PipelineConfig, Section, setting
from rnnlm.config.bounds import NonNegativeInt, PositiveFloat, PositiveInt, Size
from rnnlm.config.kinds import KINDS

CountingModel = Literal["kneser-ney"]
# Both lists form one type, so that pydantic reports a single error for a wrong name.
ComparedModel = Literal[ModelKind, CountingModel]
ALL_MODELS: tuple[ComparedModel, ...] = (*get_args(ModelKind), "kneser-ney")
NAMES: dict[str, str] = {name: kind.name for name, kind in KINDS.items()} | {"kneser-ney": "Kneser-Ney 5-gram"}


class CompareConfig(Section):
    pipeline: PipelineConfig = setting(PipelineConfig(), "The dataset, and how each model is trained.")
    models: tuple[ComparedModel, ...] = setting(ALL_MODELS, "Models to compare.", min_length=1)
    match: Literal["parameters", "tokens", "seconds"] = setting(
        "parameters",
        "Quantity that `budget` limits: the number of parameters, of trained tokens, or of seconds of training. The "
        "number of parameters is always matched within 2 %, to the budget if the budget is a number of parameters, and "
        "otherwise to the configured model.",
    )
    budget: PositiveInt | None = setting(
        None,
        "Number of parameters, trained tokens or seconds of training for each model. If null, it is taken from the "
        "pipeline's settings.",
    )
    seeds: Size = setting(3, "Number of training runs of each model. Their seeds count up from training.seed.")
    trials: NonNegativeInt = setting(
        0,
        "Number of tuning trials of each model. The first trial has the configured learning rate and dropout, and the "
        "others have random ones. The two trials with the best validation perplexity are trained on all tokens. The "
        "better one is chosen. With 0, models are not tuned.",
    )
    trial_share: Annotated[float, Field(gt=0.0, le=1.0)] = setting(
        0.25, "Fraction of the training tokens that a tuning trial uses."
    )
    target_perplexity: PositiveFloat | None = setting(
        None,
        "Validation perplexity to which training times refer. The report has the time in which each model reaches it. "
        "If null, it is the highest of the models' final validation perplexities.",
    )
    cost_seconds: PositiveFloat = setting(
        4.0, "Number of seconds for which each model is trained to measure its speed. There are two such rounds."
    )

    @property
    def kinds(self) -> tuple[ModelKind, ...]:
        """The models that are trained, without repetitions."""
        return tuple(dict.fromkeys(kind for kind in self.models if kind != "kneser-ney"))

    def subject(self) -> tuple[CorpusConfig, str]:
        return self.pipeline.subject()

    @model_validator(mode="after")
    def check_budget(self) -> "CompareConfig":
        if self.match != "parameters" and self.budget is None:
            raise ValueError(f"match={self.match} needs a budget")
        return self


class RegisteredModels(Section):
    """Settings for comparing existing registered models instead of training new ones."""

    against: tuple[str, ...] = setting(
        (), "Registered models to compare on the corpus, instead of training: NAME, NAME@ALIAS or NAME/3."
    )

    @model_validator(mode="after")
    def check_number(self) -> "RegisteredModels":
        if len(self.against) == 1:
            raise ValueError("against needs at least two registered models")
        return self
