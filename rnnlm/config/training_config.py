"""Settings of training: loss, optimizer, schedule, regularization, validation and processes."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rnnlm.config.bounds import LARGEST_FLOAT, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Seed, Size
from rnnlm.config.section import Section, setting, with_added_sections

Precision = Literal["float32", "bfloat16"]
DropoutShare = Annotated[float, Field(ge=0.0, lt=1.0)]


class LossConfig(Section):
    kind: Literal["exact", "sampled"] | None = setting(
        None,
        "Kind of the training loss. `sampled` is faster than `exact` on a CPU if the vocabulary is large. Evaluation "
        "always uses the exact softmax. If null, it is `exact` on a GPU and `sampled` otherwise.",
    )
    sampled_classes: Size = setting(1_024, "Number of classes in the sample of each step if kind is `sampled`.")
    weighting: Literal["tokens", "batches"] = setting(
        "tokens",
        "Unit with equal weight in the gradients. `tokens`: each token, so a batch of short sentences has a lower "
        "weight than a batch of long ones. `batches`: each batch, by the mean over its tokens.",
    )

    @property
    def is_sampled(self) -> bool:
        return self.kind != "exact"

    def resolved(self) -> Self:
        return self.model_copy(update={"kind": self.kind or "sampled"})


DEFAULT_RATE, RATE_UNITS, RATE_EXPONENT = 4e-3, 256, 0.75
DEFAULT_DROPOUT, DEFAULT_EPOCHS = 0.2, 3


class OptimizerConfig(Section):
    """AdamW with gradient clipping."""

    learning_rate: PositiveFloat | None = setting(
        None,
        f"Peak learning rate. If null, it is {DEFAULT_RATE:g}. For an Elman network with more than {RATE_UNITS} units, "
        f"this is multiplied by ({RATE_UNITS} / units)^{RATE_EXPONENT:g}.",
    )
    weight_decay: NonNegativeFloat = setting(
        0.01, "Coefficient of decoupled weight decay, which applies only to matrices."
    )
    clip_norm: PositiveFloat | None = setting(
        1.0, "Maximum global L2 norm of the gradients. If null, gradients are not clipped."
    )

    def peak_rate(self, kind: str, hidden_size: int) -> float:
        """Return the peak learning rate for a model of this kind and size.

        The changes of a wide tanh unit's inputs add up. At the learning rate for 256 units, many units of a layer of
        1,024 saturate and do not learn (benchmarks/stacks.py). Yang et al. 2022 derive a rate proportional to 1 / width
        for hidden matrices trained with Adam. Here the same rate applies to the embedding, which would then learn too
        slowly. Hence the exponent is smaller than 1.
        """
        if self.learning_rate is not None:
            return self.learning_rate
        if kind != "elman":
            return DEFAULT_RATE
        return DEFAULT_RATE * min(1.0, RATE_UNITS / hidden_size) ** RATE_EXPONENT


class ScheduleConfig(Section):
    """The schedule of the learning rate: warm-up, course and plateaus."""

    kind: Literal["constant", "linear", "cosine", "plateau"] = setting(
        "cosine",
        "Course of the learning rate after the warm-up. linear and cosine: it decays to 0. plateau: it is lowered on "
        "each plateau of the validation loss.",
    )
    warmup_share: Annotated[float, Field(ge=0.0, le=1.0)] = setting(
        0.05, "Fraction of all steps during which the learning rate rises linearly to its peak."
    )
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = setting(
        0.5, "Factor by which the learning rate is multiplied on each plateau of the validation loss."
    )
    plateau_patience: PositiveInt = setting(
        2, "Number of consecutive validations without a new lowest loss after which the learning rate is lowered."
    )


class DropoutConfig(Section):
    """Dropout rates of training; 0 turns a kind of dropout off.

    Locked dropout uses one mask per sequence for all time steps.
    """

    words: DropoutShare = setting(0.0, "Fraction of the embedding's rows (tokens) that are dropped in each batch.")
    inputs: DropoutShare | None = setting(
        None,
        "Dropout probability of the units of embedded tokens. A unit is dropped at all time steps of a row (locked "
        f"dropout). If null, it is chosen to suit training.minutes if that is set, and is {DEFAULT_DROPOUT} otherwise.",
    )
    layers: DropoutShare = setting(
        0.0,
        "Dropout probability of the units that a layer reads from the layer below. A unit is dropped at all time steps "
        "of a row (locked dropout).",
    )
    outputs: DropoutShare | None = setting(
        None,
        "Dropout probability of the top layer's units. A unit is dropped at all time steps of a row (locked dropout). "
        f"If null, it is chosen to suit training.minutes if that is set, and is {DEFAULT_DROPOUT} otherwise.",
    )
    recurrent: DropoutShare = setting(0.0, "Dropout probability of the weights in U, with one mask per batch.")

    def resolved(self) -> Self:
        shares = {"inputs": self.inputs, "outputs": self.outputs}
        return self.model_copy(update={name: DEFAULT_DROPOUT for name, share in shares.items() if share is None})


class AveragingConfig(Section):
    """Averaging of weights. The average is then evaluated and saved instead of the trained weights."""

    kind: Literal["none", "mean", "exponential"] = setting("none", "Kind of weight averaging.")
    start_share: Annotated[float, Field(ge=0.0, lt=1.0)] = setting(
        0.5, "Fraction of all steps after which the averaging of weights starts."
    )
    every_steps: PositiveInt = setting(10, "Number of steps between two updates of the average.")
    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = setting(
        0.99, "Weight of the previous average in each update if kind is `exponential`."
    )


class ValidationConfig(Section):
    """Validation during training. Validations are evenly spaced, and the last one is at the end."""

    evaluations: PositiveInt = setting(3, "Number of validations during training.")
    tokens: PositiveInt | None = setting(
        20_000,
        "Number of predicted tokens per validation. They are taken from the validation lines for model selection, "
        "which are about half of all validation lines, chosen by their content. If null, all lines for model selection "
        "are used.",
    )
    early_stopping_patience: PositiveInt | None = setting(
        None,
        "Number of consecutive validations without a new lowest perplexity after which training stops. If null, "
        "training never stops early.",
    )


class CheckpointsConfig(Section):
    every_seconds: PositiveFloat = setting(
        120.0,
        "Maximum number of seconds between two checkpoints. Checkpoints are written more often as long as writing them "
        "takes less than 1 % of the time. A checkpoint is also written before each validation.",
        changes_results=False,
    )
    kept: Size = setting(3, "Number of newest checkpoints that are kept.", changes_results=False)


class DivergenceConfig(Section):
    explosion_factor: Annotated[float, Field(gt=1.0, le=LARGEST_FLOAT)] = setting(
        10.0,
        "Maximum ratio of the training loss to the loss of a uniform guess. If it is exceeded, training has diverged.",
    )
    retries: NonNegativeInt = setting(
        0, "Maximum number of rollbacks to the last good checkpoint. Each of them halves the learning rate."
    )


class FeedConfig(Section):
    reader_processes: int = setting(
        0,
        "Number of processes that read batches in advance. With 0, the training process reads them.",
        ge=0,
        le=256,
        changes_results=False,
    )
    resident_tokens: NonNegativeInt = setting(
        2_000_000_000, "Maximum number of tokens of a training split that a GPU holds entirely.", changes_results=False
    )


class WarmStartConfig(Section):
    """The learning rate and length of a run that starts from another model. They replace those of a new model."""

    learning_rate: PositiveFloat | None = setting(
        None, "Peak learning rate. If null, it is chosen as with training.optimizer.learning_rate=null."
    )
    epochs: PositiveInt = setting(1, "Number of passes over the training split.")
    maximum_tokens: PositiveInt | None = setting(
        None, "Approximate number of tokens to train on. The schedule extends over them. If null, all epochs are used."
    )


@with_added_sections("training")
class TrainingConfig(Section):
    # A removed field: training on a GPU now always captures its steps as CUDA graphs.
    former_fields = {"cuda_graphs": False}

    start_from: str = setting(
        "nothing",
        "Initial weights. nothing: random weights. champion: those of the registered model's champion. NAME, "
        "NAME@ALIAS or models:/NAME/3: those of this registered version.",
        min_length=1,
    )
    warm_start: WarmStartConfig = setting(
        WarmStartConfig(), "Learning rate and length of a run that starts from another model."
    )
    minutes: PositiveFloat | None = setting(
        3.0,
        "Number of minutes of training if neither epochs nor maximum_tokens is set. The number of tokens is chosen "
        "according to the speed of this machine. If units, dropout, precision and learning rate are null, they are "
        f"chosen to suit the number of minutes. If minutes is null, training has {DEFAULT_EPOCHS} epochs.",
        # The minutes affect results only through the settings that are chosen for them. These settings are part of the
        # keys.
        changes_results=False,
    )
    epochs: PositiveInt | None = setting(
        None,
        "Number of passes over the training split. If null, it is chosen to suit minutes if that is set, and is "
        f"{DEFAULT_EPOCHS} otherwise.",
    )
    maximum_tokens: PositiveInt | None = setting(
        None, "Approximate number of tokens to train on. The schedule extends over them. If null, all epochs are used."
    )
    batch_size: Size = setting(
        64, "Number of sequences (sentence mode) or lanes (stream mode) per step, in total over all processes."
    )
    window_length: Size = setting(
        35, "Number of predicted tokens after which the state is detached from the gradient. It applies in stream mode."
    )
    accumulation: Size = setting(
        1, "Number of micro-batches per step and process. The more there are, the less memory a step needs."
    )
    precision: Precision | None = setting(
        None,
        "Precision of large matrix products. With bfloat16, LSTM, GRU and Elman layers with more than 1,024 units use "
        "TF32 on a GPU. A CPU without native bfloat16 then uses float32. If null, it is bfloat16 on a GPU. On a CPU, "
        "it is chosen to suit minutes if that is set, and is float32 otherwise.",
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        "auto", "Device for training. auto: the first available one of cuda, mps and cpu."
    )
    deterministic: bool = setting(False, "Whether to refuse algorithms whose results vary between calls.")
    seed: Seed = setting(0, "Seed of initial weights, batch order, dropout and samples.")
    temperature_scaling: bool = setting(
        True,
        "Whether to divide the logits after training by the temperature with the lowest loss on the validation split.",
    )
    loss: LossConfig = setting(LossConfig(), "Training loss.")
    optimizer: OptimizerConfig = setting(OptimizerConfig(), "Optimizer and gradient clipping.")
    schedule: ScheduleConfig = setting(ScheduleConfig(), "Learning-rate schedule.")
    dropout: DropoutConfig = setting(DropoutConfig(), "Dropout during training.")
    averaging: AveragingConfig = setting(AveragingConfig(), "Weight averaging.")
    validation: ValidationConfig = setting(ValidationConfig(), "Validation during training.")
    checkpoints: CheckpointsConfig = setting(CheckpointsConfig(), "Checkpoints of unfinished runs.")
    divergence: DivergenceConfig = setting(DivergenceConfig(), "Detection of divergence, and rollbacks after it.")
    feed: FeedConfig = setting(FeedConfig(), "How batches are read for training.")

    @property
    def epoch_count(self) -> int:
        """The configured number of epochs, or the default number."""
        return DEFAULT_EPOCHS if self.epochs is None else self.epochs

    @property
    def product_precision(self) -> Precision:
        """The configured precision, or the default one."""
        return self.precision or "float32"

    def resolved(self) -> Self:
        chosen = {"epochs": self.epoch_count, "precision": self.product_precision, "dropout": self.dropout.resolved()}
        return self.model_copy(update=chosen)

    def of_warm_start(self) -> "TrainingConfig":
        """Return the settings of a run that starts from another model."""
        warm = self.warm_start
        optimizer = self.optimizer.model_copy(update={"learning_rate": warm.learning_rate})
        budget = {"epochs": warm.epochs, "maximum_tokens": warm.maximum_tokens}
        return self.model_copy(update={"optimizer": optimizer, **budget})

    @model_validator(mode="after")
    def check_accumulation(self) -> "TrainingConfig":
        if self.batch_size < self.accumulation:
            raise ValueError(f"accumulation {self.accumulation} must be at most batch_size {self.batch_size}")
        return self

    @model_validator(mode="after")
    def check_patience(self) -> "TrainingConfig":
        """Raise ValueError if there are too few validations for a patience to be exhausted.

        At least patience + 1 validations are needed, because the first validation is always the best so far.
        """
        patience = {
            "validation.early_stopping_patience": self.validation.early_stopping_patience,
            "schedule.plateau_patience": self.schedule.plateau_patience if self.schedule.kind == "plateau" else None,
        }
        for name, evaluations in patience.items():
            if evaluations is not None and evaluations >= self.validation.evaluations:
                raise ValueError(f"{name}={evaluations} needs validation.evaluations of at least {evaluations + 1}")
        return self
