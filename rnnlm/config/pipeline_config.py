"""The whole configuration with all sections, including tracking, registration, time limit and retries."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from rnnlm.config.bounds import LARGEST_COUNT, NonNegativeFloat, NonNegativeInt, PositiveFloat, Seed
from rnnlm.config.data_config import CorpusConfig, GatesConfig, SequencesConfig, TokenizerConfig
from rnnlm.config.evaluation_config import EvaluationConfig, GenerationConfig
from rnnlm.config.kinds import KINDS, kind_of
from rnnlm.config.model_config import ModelConfig
from rnnlm.config.moved_settings import upgrade
from rnnlm.config.preset_files import preset_files
from rnnlm.config.section import Section, setting, with_added_sections
from rnnlm.config.training_config import TrainingConfig

Stage = Literal["corpus", "tokenizer", "sequences", "training", "evaluation", "samples", "registration"]
STAGES: tuple[Stage, ...] = get_args(Stage)
SIZE_SETTINGS = (  # The settings that are chosen automatically for training.minutes if they are null.
    "model.hidden_size",
    "training.epochs",
    "training.maximum_tokens",
    "training.precision",
    "training.dropout.inputs",
    "training.dropout.outputs",
    "training.optimizer.learning_rate",
)
if TYPE_CHECKING:
    Preset = str
else:
    Preset = Literal[tuple(preset_files())]


class TrackingConfig(Section):
    experiment: str = setting(
        "rnnlm",
        "Name of the MLflow experiment, without control characters.",
        pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$",
        max_length=500,
        changes_results=False,
    )
    log_every_seconds: PositiveFloat = setting(
        10.0,
        "Number of seconds between two progress lines, and between two transmissions of metrics to MLflow.",
        changes_results=False,
    )
    system_metrics: bool = setting(
        False,
        "Whether to log the use of CPU, memory, disk, network and GPU to the MLflow run during training.",
        changes_results=False,
    )


class LimitsConfig(Section):
    """Limits of a run of the `pipeline` flow."""

    hours: PositiveFloat | None = setting(
        None,
        "Maximum wall time of a flow run in hours. After this time, the flow run fails. The next flow run continues "
        "from its checkpoint. If null, there is no limit.",
        changes_results=False,
    )
    retries: NonNegativeInt = setting(
        0, "Maximum number of times that a flow run is started again after an unexpected error.", changes_results=False
    )
    retry_minutes: NonNegativeFloat = setting(
        15.0, "Number of minutes between the failure of a flow run and its restart.", changes_results=False
    )


Promote = Literal["never", "if_better", "by_policy"]


class RegistryConfig(Section):
    """Settings of the registered model, and of the decision whether a candidate replaces the champion."""

    model_name: str | None = setting(
        None,
        "Name of the registered model, without a dot. MLflow does not allow dots. If null, it is rnnlm-<corpus name>, "
        "with a digest if this name belongs to another source.",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$",
        max_length=200,
    )
    policy: Literal["newer", "better"] = setting(
        "newer",
        "Condition for a candidate to become champion. newer: a candidate trained on newer text must be shown to be at "
        "most `margin` worse, or be no worse on the compared text. A candidate trained on the same text must be shown "
        "to be better. better: every candidate must be shown to be better.",
    )
    promote: Promote | None = setting(
        None,
        "Whether this run's model may become champion. never: no. if_better: if it is shown to be better, whatever the "
        "policy is. by_policy: as decided by `policy`. If null, it is by_policy for scheduled runs and for runs with "
        "the champion's settings, and if_better otherwise.",
        added_later=True,
    )
    approval: bool = setting(
        False,
        "Whether a winning candidate remains challenger until a person makes it champion with `rnnlm promote`.",
        added_later=True,
    )
    margin: float = setting(
        0.01,
        "Maximum fraction by which a candidate's nats per byte may exceed the champion's with policy=newer. The same "
        "limit applies to the best champion of the last 30 days. With any policy, a candidate waits for approval if it "
        "is worse by more than this fraction on the lines that the champion itself had held out.",
        ge=0.0,
        le=1.0,
    )
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)] = setting(
        0.95,
        "Confidence level of the one-sided bounds of the difference between two models. The higher it is, the more "
        "evidence a promotion needs.",
    )
    resamples: int = setting(
        10_000, "Number of bootstrap resamples in a comparison of two models.", ge=100, le=1_000_000
    )
    minimum_units: int = setting(
        10,
        "Minimum number of documents in a comparison that can lead to a promotion. If fewer than 200 documents are "
        "compared, this is the minimum number of runs of lines.",
        ge=2,
        le=LARGEST_COUNT,
    )
    maximum_documents: int = setting(
        10_000,
        "Maximum number of documents in a comparison. If there are more, a random sample of them is used.",
        ge=2,
        le=LARGEST_COUNT,
        added_later=True,
    )
    seed: Seed = setting(0, "Seed of the bootstrap, and of the random sample of documents.")

    @model_validator(mode="after")
    def check_documents(self) -> "RegistryConfig":
        if self.maximum_documents < self.minimum_units:
            raise ValueError(
                f"maximum_documents {self.maximum_documents} must be at least minimum_units {self.minimum_units}"
            )
        return self


@with_added_sections("")
class PipelineConfig(Section):
    # The name of the preset. The preset's settings are added in presets.py and not here, because a stored configuration
    # must not change when its preset changes.
    preset: Preset = setting(
        "default",
        "Preset with the initial settings of the run. Settings that are changed individually take precedence.",
        changes_results=False,
    )
    corpus: CorpusConfig = setting(CorpusConfig(), "Source of the text, and how it is read.")
    tokenizer: TokenizerConfig = setting(TokenizerConfig(), "How text is converted to token ids.")
    sequences: SequencesConfig = setting(SequencesConfig(), "How token ids are cut into stored rows.")
    gates: GatesConfig = setting(GatesConfig(), "Checks of the data before training.")
    model: ModelConfig = setting(ModelConfig(), "The recurrent network.")
    training: TrainingConfig = setting(TrainingConfig(), "How the network is trained.")
    evaluation: EvaluationConfig = setting(EvaluationConfig(), "Evaluation after training.")
    generation: GenerationConfig = setting(GenerationConfig(), "Samples after training.")
    tracking: TrackingConfig = setting(TrackingConfig(), "MLflow tracking and progress lines.")
    registry: RegistryConfig = setting(RegistryConfig(), "Registration and promotion.")
    limits: LimitsConfig = setting(LimitsConfig(), "Time limit and retries of a flow run.")
    force: tuple[Stage, ...] = setting(
        (), "Stages that run again even if their verified output exists.", changes_results=False
    )

    def subject(self) -> tuple[CorpusConfig, str]:
        return self.corpus, self.preset

    @model_validator(mode="before")
    @classmethod
    def upgrade_older_configuration(cls, values: Any) -> Any:
        """Accept configurations of older versions, which are stored in run folders and deployments."""
        return upgrade(values)

    @model_validator(mode="after")
    def check_recurrent_dropout(self) -> "PipelineConfig":
        if self.training.dropout.recurrent and not kind_of(self.model.kind).has_recurrent_matrix:
            having = " or ".join(name for name, kind in KINDS.items() if kind.has_recurrent_matrix)
            raise ValueError(
                f"training.dropout.recurrent={self.training.dropout.recurrent:g} needs a model.kind with a recurrent "
                f"matrix U: {having}; got {self.model.kind}"
            )
        return self

    @model_validator(mode="after")
    def check_sections(self) -> "PipelineConfig":
        for _, section in self.sections():
            section.check_with(self)
        return self


def changeable_settings() -> list[str]:
    """Return the dotted paths of settings that may change when a run is resumed.

    These settings determine on which machines and devices the run is computed, but do not change its result.
    """
    return [f"{path}.{name}" for path, section in PipelineConfig().sections() for name in section.changeable]
