"""The pipeline's whole configuration: one frozen section per stage, and the only parameter of its flows.

`PipelineConfig()` is what `rnnlm run` and the nightly deployment do; presets (prefect.yaml) state differences from it.
Options of single commands live beside their code: probes, evaluation/ngram, evaluation/test_time_adaptation, scoring
and serving have configuration modules of their own.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from rnnlm.moved_settings import upgrade
from rnnlm.redaction import redacted

LOWEST_TEMPERATURE = 0.01  # Smallest non-zero temperature; anything lower overflows float32.


def check_temperature(temperature: float) -> float:
    if 0 < temperature < LOWEST_TEMPERATURE:
        raise ValueError(f"temperature must be 0 (greedy) or at least {LOWEST_TEMPERATURE}")
    return temperature


# Sampling bounds, shared by the configuration and the service. registry/served_model.py repeats them because it must
# not import this package.
MaximumTokens = Annotated[int, Field(ge=1, le=100_000)]
Temperature = Annotated[float, Field(ge=0.0, le=100.0), AfterValidator(check_temperature)]
TopK = Annotated[int, Field(ge=0, lt=2**31)]
TopP = Annotated[float, Field(ge=1e-6, le=1.0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
SplitShare = Annotated[float, Field(ge=0.0, lt=0.5)]
DropoutShare = Annotated[float, Field(ge=0.0, lt=1.0)]

Stage = Literal["corpus", "tokenizer", "sequences", "training", "evaluation", "samples", "registration"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Preset = Literal["default", "gpu", "smoke", "ptb", "ptb-long", "shakespeare", "counting", "overfit"]  # of prefect.yaml
ModelKind = Literal["elman", "gru", "lstm", "min-gru", "min-lstm", "transformer"]
MODEL_NAMES: dict[ModelKind, str] = {
    "elman": "Elman network",
    "gru": "GRU",
    "lstm": "LSTM",
    "min-gru": "minGRU",
    "min-lstm": "minLSTM",
    "transformer": "Transformer",
}
Nonlinearity = Literal["tanh", "relu", "sigmoid"]
Backend = Literal["fused", "loop"]
RecurrentInitialization = Literal["xavier", "orthogonal", "identity", "spread"]


class Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False, validate_default=True
    )


def setting(default: Any, description: str, *, changes_results: bool = True, **bounds: Any) -> Any:
    """A pydantic Field. changes_results=False: the field cannot change the result of its stage."""
    extra: dict[str, JsonValue] = {"changes_results": changes_results}
    return Field(default, description=description, json_schema_extra=extra, **bounds)


def changes_results(field: FieldInfo) -> bool:
    return field.json_schema_extra != {"changes_results": False}


def result_settings(section: Section) -> dict[str, Any]:
    """The section as JSON values, without the fields that cannot change a result. Stages compute their keys from it."""
    values = section.model_dump(mode="json")
    settings = {}
    for name, field in type(section).model_fields.items():
        if changes_results(field):
            value = getattr(section, name)
            settings[name] = result_settings(value) if isinstance(value, Section) else values[name]
    return settings


class CorpusConfig(Section):
    source: str = setting(
        "python-docs",
        "Catalogue name, hf:OWNER/NAME[:CONFIG], file, folder, glob or http(s) URL.",
        min_length=1,
        repr=False,
    )
    name: str | None = setting(
        None, "Name of the corpus. null: derived from the source.", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$"
    )
    sha256: str | None = setting(
        None, "Expected SHA-256 of the download. null: not checked.", pattern=r"^[0-9a-f]{64}$"
    )
    refresh: str = setting(
        "always",
        "When to look for a newer text at a URL or hf: source: always, never, or after a time such as 30m, 12h or 7d.",
        pattern=r"^(always|never|[1-9][0-9]{0,3}[mhd])$",
    )
    format: Literal["auto", "text", "markdown", "rst", "html", "pdf", "csv", "tsv", "jsonl", "parquet"] = setting(
        "auto", "Format of the source's files. auto: by file name. text: as they are."
    )
    column: str | None = setting(
        None, "Column with the text, for csv, tsv, jsonl, parquet and hf: sources. null: `text`."
    )
    encoding: str = setting("utf-8", "Text encoding of the source's files.")
    undecodable: Literal["refuse", "replace"] = setting(
        "refuse", "What to do with bytes that are invalid in the encoding."
    )
    normalization: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = setting(
        "none", "Unicode normalization form applied to the text."
    )
    lowercase: bool = setting(False, "Lowercase the text.")
    digits: str | None = setting(
        None, "Replacement for each run of digits, such as ###. null: digits stay.", max_length=16
    )
    valid_share: SplitShare = setting(
        0.05, "Share of documents for the validation split, if the source has no such split."
    )
    test_share: SplitShare = setting(0.05, "Share of documents for the test split, if the source has no such split.")
    maximum_unpacked_bytes: PositiveInt = setting(
        1 << 40, "Largest size of a source after decompression, in bytes.", changes_results=False
    )
    maximum_unpacking_ratio: PositiveFloat = setting(
        200.0, "Largest ratio of unpacked to packed bytes, checked from 16 MiB on.", changes_results=False
    )
    maximum_archive_members: PositiveInt = setting(
        10_000, "Largest number of files in an archive.", changes_results=False
    )
    maximum_download_bytes: PositiveInt = setting(
        200_000_000_000, "Largest size of a download, in bytes.", changes_results=False
    )
    maximum_download_seconds: PositiveFloat = setting(
        172_800.0, "Longest time for a download, from first request to last byte, in seconds.", changes_results=False
    )

    @property
    def public_source(self) -> str:
        """The source without passwords and signatures, safe to show and store."""
        return redacted(self.source)

    @field_serializer("source")
    def without_secrets(self, source: str) -> str:
        return redacted(source)


class TokenizerConfig(Section):
    kind: str = setting(
        "bpe",
        "char, word, bpe, unigram, or pretrained:NAME_OR_PATH for a Hugging Face tokenizer.",
        pattern=r"^(char|word|bpe|unigram|pretrained:.+)$",
    )
    splitting: Literal["whitespace", "punctuation", "textbook"] = setting("whitespace", "How text is split into words.")
    vocabulary_size: int = setting(8_000, "Largest number of token ids, special tokens included.", ge=16, le=1_000_000)
    minimum_count: PositiveInt = setting(
        1, "Words, characters and merges that occur less often in the training split get no id."
    )
    unknown_literal: str | None = setting("<unk>", "How the corpus itself spells an unknown word.")
    training_bytes: PositiveInt = setting(
        200_000_000, "Largest amount of text, in bytes, to learn subwords from, spread evenly over the split."
    )

    @model_validator(mode="after")
    def check_byte_alphabet(self) -> "TokenizerConfig":
        if self.kind in ("bpe", "unigram") and self.vocabulary_size < 260:
            raise ValueError(f"{self.kind} needs a vocabulary_size of at least 260 (256 bytes, 4 special tokens)")
        return self


class SequencesConfig(Section):
    mode: Literal["sentence", "stream"] = setting(
        "sentence", "sentence: each line is a sequence. stream: the corpus is one running text."
    )
    context_length: int = setting(
        64, "Largest number of predicted tokens per stored row, sentence mode.", ge=1, le=65_536
    )
    block_length: int = setting(128, "Number of predicted tokens per stored row, stream mode.", ge=2, le=1_048_576)
    processes: int | None = setting(
        None, "Number of processes that tokenize. null: one per CPU core.", ge=1, le=1_024, changes_results=False
    )
    memory_mebibytes: int = setting(
        128, "Memory limit of DuckDB while it stores sequences, in MiB.", ge=16, le=1_048_576, changes_results=False
    )


def threshold(default: float | None, description: str) -> Any:
    """A share above which a gate warns or stops. null: never."""
    return setting(default, f"{description} null: never.", ge=0.0, le=1.0, changes_results=False)


class GatesConfig(Section):
    """Checks before training. Above *_warn_at: a warning. Above *_stop_at: the run ends, and the champion stays."""

    shrinkage_warn_at: float | None = threshold(
        0.1, "Warn if the corpus is smaller than the champion's by more than this share."
    )
    shrinkage_stop_at: float | None = threshold(
        0.5, "Stop if the corpus is smaller than the champion's by more than this share."
    )
    unknown_warn_at: float | None = threshold(
        0.25, "Warn if more than this share of a held-out split's tokens are unknown words."
    )
    unknown_stop_at: float | None = threshold(
        None, "Stop if more than this share of a held-out split's tokens are unknown words."
    )
    duplicates_warn_at: float | None = threshold(
        0.5, "Warn if more than this share of the training rows (stream mode: documents) repeat another."
    )
    duplicates_stop_at: float | None = threshold(
        None, "Stop if more than this share of the training rows (stream mode: documents) repeat another."
    )
    leakage_warn_at: float | None = threshold(
        0.2, "Warn if more than this share of a held-out split is in the training text too."
    )
    leakage_stop_at: float | None = threshold(
        None, "Stop if more than this share of a held-out split is in the training text too."
    )
    drift_warn_at: float | None = threshold(
        0.1, "Warn if the distance between the character frequencies of this and the champion's text is larger."
    )
    drift_stop_at: float | None = threshold(
        0.4, "Stop if the distance between the character frequencies of this and the champion's text is larger."
    )


class ModelConfig(Section):
    kind: ModelKind = setting("elman", "Kind of the layers.")
    hidden_size: int = setting(256, "Number of units per layer.", ge=1, le=16_384)
    input: Literal["embedding", "one-hot"] = setting(
        "embedding", "one-hot: the embedding is the identity matrix and is not trained."
    )
    embedding_size: int | None = setting(
        None, "Size of token embeddings. null: hidden_size, or the vocabulary if one-hot.", ge=1, le=16_384
    )
    layers: int = setting(1, "Number of recurrent layers.", ge=1, le=64)
    residual: bool = setting(
        False, "Pre-norm residual connections between layers of an Elman network; no effect with one layer."
    )
    nonlinearity: Nonlinearity = setting("tanh", "Activation function of an Elman network.")
    recurrence: Literal["full", "diagonal"] = setting(
        "full", "Recurrent matrix U of an Elman network. diagonal: each unit reads only its own previous state."
    )
    recurrent_initialization: RecurrentInitialization = setting(
        "identity", "Initial recurrent matrix U of an Elman network. spread: a diagonal from 0 to 1."
    )
    heads: int = setting(4, "Number of attention heads of a Transformer.", ge=1, le=256)
    attention_window: int = setting(
        256, "Number of tokens that a Transformer's attention reaches back; its state grows with it.", ge=1, le=16_384
    )
    tie_embeddings: bool = setting(
        True, "Share the output matrix with the embedding; if sizes differ, a projection precedes it."
    )
    head_bias: Literal["zero", "unigram"] = setting(
        "unigram", "Initial output bias. unigram: log frequencies of the training split."
    )
    backend: Backend = setting(
        "fused", "Implementation of the same function. fused: fast kernels. loop: readable Python."
    )

    @model_validator(mode="after")
    def check_kind(self) -> "ModelConfig":
        for name in ("residual", "nonlinearity", "recurrence"):
            if self.kind != "elman" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}={getattr(self, name)} needs kind=elman")
        if self.kind == "transformer" and self.hidden_size % (2 * self.heads):
            raise ValueError(f"hidden_size={self.hidden_size} needs to be a multiple of 2 * heads={2 * self.heads}")
        return self

    @model_validator(mode="after")
    def check_diagonal(self) -> "ModelConfig":
        if self.recurrence == "diagonal" and self.recurrent_initialization not in ("identity", "spread"):
            raise ValueError("recurrence=diagonal needs recurrent_initialization=identity or spread")
        return self

    @model_validator(mode="after")
    def check_one_hot(self) -> "ModelConfig":
        if self.input == "one-hot" and self.kind == "transformer":
            raise ValueError("input=one-hot needs another kind than transformer")
        if self.input == "one-hot" and (self.tie_embeddings or self.embedding_size is not None):
            raise ValueError("input=one-hot needs tie_embeddings=false and embedding_size=null")
        return self


class LossConfig(Section):
    kind: Literal["exact", "sampled"] = setting(
        "sampled", "Training loss. sampled: faster with a large vocabulary. Evaluation always uses the exact softmax."
    )
    sampled_classes: PositiveInt = setting(1_024, "Number of classes in each step's sample, if kind is sampled.")


class OptimizerConfig(Section):
    """AdamW with gradient clipping."""

    learning_rate: PositiveFloat = setting(4e-3, "Peak learning rate.")
    weight_decay: NonNegativeFloat = setting(0.01, "Decoupled weight decay, applied to matrices only.")
    clip_norm: PositiveFloat = setting(1.0, "Largest global L2 norm of the gradients.")


class ScheduleConfig(Section):
    """The learning rate over time."""

    kind: Literal["constant", "linear", "cosine", "plateau"] = setting(
        "cosine", "Learning rate after warm-up. linear, cosine: decay to 0. plateau: lower it on plateaus."
    )
    warmup_share: Annotated[float, Field(ge=0.0, le=1.0)] = setting(
        0.05, "Share of all steps in which the learning rate rises linearly to its peak."
    )
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = setting(
        0.5, "Factor by which the learning rate is multiplied on each plateau."
    )
    plateau_patience: PositiveInt = setting(
        2, "Number of validations without a better loss after which the learning rate is lowered."
    )


class DropoutConfig(Section):
    """Shares set to zero during training; 0 turns a kind off. Locked: one mask per sequence, for all time steps."""

    words: DropoutShare = setting(0.0, "Share of the vocabulary whose embedding rows are dropped.")
    inputs: DropoutShare = setting(0.2, "Locked dropout of embedding units.")
    layers: DropoutShare = setting(0.0, "Locked dropout of units between layers.")
    outputs: DropoutShare = setting(0.2, "Locked dropout of the top layer's units.")
    recurrent: DropoutShare = setting(0.0, "Dropout of weights in U, one mask per batch.")


class AveragingConfig(Section):
    """Averaged weights, which are then evaluated and saved instead of the trained ones."""

    kind: Literal["none", "mean", "exponential"] = setting("none", "Kind of weight averaging.")
    start_share: Annotated[float, Field(ge=0.0, lt=1.0)] = setting(
        0.5, "Share of all steps after which averaging starts."
    )
    every_steps: PositiveInt = setting(10, "Number of steps from one update of the average to the next.")
    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = setting(
        0.99, "Weight of the old average in each update, if kind is exponential."
    )


class ValidationConfig(Section):
    """Validation during training, evenly spaced; the last one is at the end."""

    evaluations: PositiveInt = setting(3, "Number of validations.")
    tokens: PositiveInt | None = setting(
        20_000, "Number of predicted tokens of the validation split to use: at most a third of it. null: a third."
    )
    early_stopping_patience: PositiveInt | None = setting(
        None, "Stop after this many validations without a better perplexity. null: never."
    )


class CheckpointsConfig(Section):
    every_seconds: PositiveFloat = setting(
        120.0, "Seconds between checkpoints; one is also written before each validation.", changes_results=False
    )
    kept: PositiveInt = setting(3, "Number of newest checkpoints to keep.", changes_results=False)


class DivergenceConfig(Section):
    explosion_factor: Annotated[float, Field(gt=1.0)] = setting(
        10.0, "Training has diverged if its loss exceeds this multiple of a uniform guess's loss."
    )
    retries: NonNegativeInt = setting(
        0, "Number of rollbacks to the last good checkpoint, each with half the learning rate."
    )


class DistributedConfig(Section):
    """Data-parallel training in several processes."""

    # It changes how sums are rounded, and so the result.
    processes: PositiveInt = setting(
        1, "Number of training processes on all nodes; each takes batch_size / processes rows."
    )
    nodes: PositiveInt = setting(
        1, "Number of machines; start the others by hand with `rnnlm join`.", changes_results=False
    )
    rendezvous: str | None = setting(
        None,
        "host:port of this machine, at which the other nodes join.",
        pattern=r"^[^\s:]+:[0-9]+$",
        changes_results=False,
    )
    restarts: NonNegativeInt = setting(
        2, "Number of restarts after a training process has died.", changes_results=False
    )

    @model_validator(mode="after")
    def check_nodes(self) -> "DistributedConfig":
        if self.processes % self.nodes:
            raise ValueError(f"processes {self.processes} must be a multiple of nodes {self.nodes}")
        if (self.nodes > 1) != (self.rendezvous is not None):
            raise ValueError("nodes above 1 and rendezvous=host:port must be set together")
        return self


class FeedConfig(Section):
    reader_processes: int = setting(
        0, "Number of processes that read batches ahead. 0: none.", ge=0, le=256, changes_results=False
    )
    resident_tokens: NonNegativeInt = setting(
        2_000_000_000, "A GPU holds the whole training split if it has at most this many tokens.", changes_results=False
    )


class WarmStartConfig(Section):
    """The learning rate and budget of a run that goes on from another model, in place of those of a new one."""

    learning_rate: PositiveFloat = setting(4e-3, "Peak learning rate.")
    epochs: PositiveInt = setting(1, "Number of passes over the training split.")
    maximum_tokens: PositiveInt | None = setting(
        None, "Approximate number of tokens to train on; the schedule is made for it. null: all epochs."
    )


class TrainingConfig(Section):
    start_from: str = setting(
        "nothing",
        "Initial weights. nothing: random ones. champion: those of the registered model's champion. Or those of a "
        "registered version: NAME, NAME@ALIAS or models:/NAME/3.",
        min_length=1,
    )
    warm_start: WarmStartConfig = setting(
        WarmStartConfig(), "Learning rate and budget of a run that goes on from another model."
    )
    epochs: PositiveInt = setting(3, "Number of passes over the training split.")
    maximum_tokens: PositiveInt | None = setting(
        None, "Approximate number of tokens to train on; the schedule is made for it. null: all epochs."
    )
    batch_size: PositiveInt = setting(
        64, "Number of sequences (sentence mode) or lanes (stream mode) per step, over all processes."
    )
    window_length: PositiveInt = setting(
        35, "Number of predicted tokens between two detachments of the state, stream mode."
    )
    accumulation: PositiveInt = setting(
        1, "Number of micro-batches per step and process: less memory for the same step."
    )
    precision: Literal["float32", "bfloat16"] = setting(
        "float32", "Precision of large matrix products; with bfloat16 a GPU's layers use TF32."
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        "auto", "Where to train. auto: cuda if there is one, else mps, else cpu."
    )
    cuda_graphs: bool = setting(False, "Replay recorded steps on a GPU: faster for small models; one process only.")
    deterministic: bool = setting(False, "Refuse algorithms whose results vary between calls.")
    seed: Seed = setting(0, "Seed of initial weights, batch order, dropout and samples.")
    temperature_scaling: bool = setting(
        False, "After training, divide the logits by the temperature that fits the validation split best."
    )
    loss: LossConfig = setting(LossConfig(), "Training loss.")
    optimizer: OptimizerConfig = setting(OptimizerConfig(), "Optimizer and gradient clipping.")
    schedule: ScheduleConfig = setting(ScheduleConfig(), "Learning rate over time.")
    dropout: DropoutConfig = setting(DropoutConfig(), "Dropout during training.")
    averaging: AveragingConfig = setting(AveragingConfig(), "Weight averaging.")
    validation: ValidationConfig = setting(ValidationConfig(), "Validation during training.")
    checkpoints: CheckpointsConfig = setting(CheckpointsConfig(), "Checkpoints of unfinished runs.")
    divergence: DivergenceConfig = setting(DivergenceConfig(), "Detection of divergence, and rollbacks.")
    distributed: DistributedConfig = setting(DistributedConfig(), "Training in several processes.")
    feed: FeedConfig = setting(FeedConfig(), "How batches reach the model.")

    def of_warm_start(self) -> "TrainingConfig":
        """The settings of a run that goes on from another model."""
        warm = self.warm_start
        optimizer = self.optimizer.model_copy(update={"learning_rate": warm.learning_rate})
        budget = {"epochs": warm.epochs, "maximum_tokens": warm.maximum_tokens}
        return self.model_copy(update={"optimizer": optimizer, **budget})

    @model_validator(mode="after")
    def check_batch_size(self) -> "TrainingConfig":
        processes = self.distributed.processes
        if self.batch_size % processes:
            raise ValueError(f"batch_size {self.batch_size} must be a multiple of distributed.processes {processes}")
        rows = self.batch_size // processes
        if rows % self.accumulation:
            raise ValueError(f"accumulation {self.accumulation} must divide the {rows} rows of each process")
        return self

    @model_validator(mode="after")
    def check_patience(self) -> "TrainingConfig":
        """The first validation is the first best, so only later ones can fail to be better."""
        patience = {
            "validation.early_stopping_patience": self.validation.early_stopping_patience,
            "schedule.plateau_patience": self.schedule.plateau_patience if self.schedule.kind == "plateau" else None,
        }
        for name, evaluations in patience.items():
            if evaluations is not None and evaluations >= self.validation.evaluations:
                raise ValueError(f"{name}={evaluations} needs validation.evaluations of at least {evaluations + 1}")
        return self


class EvaluationConfig(Section):
    splits: tuple[Literal["train", "valid", "test"], ...] = setting(
        ("valid", "test"), "Splits to score after training; valid and test are required."
    )
    batch_size: PositiveInt = setting(64, "Number of sequences scored together, sentence mode.", changes_results=False)

    @model_validator(mode="after")
    def check_splits(self) -> "EvaluationConfig":
        if not {"valid", "test"} <= set(self.splits):
            raise ValueError("splits must include valid (compared for promotion) and test (reported)")
        return self


class GenerationConfig(Section):
    prompts: tuple[str, ...] | None = setting(
        None, "Texts to continue. null: the empty prompt and the beginnings of validation sequences."
    )
    maximum_tokens: MaximumTokens = setting(40, "Largest number of tokens per sample.")
    temperature: Temperature = setting(0.8, "Sampling temperature. 0: greedy.")
    top_k: TopK = setting(0, "Sample from this many most likely tokens. 0: off.")
    top_p: TopP = setting(0.95, "Sample from the fewest tokens with this total probability. 1: off.")
    seed: Seed = setting(0, "Seed of the first sample; each further one has the next seed.")
    unknown: bool = setting(False, "Whether samples may contain <unk>.")


class ProbesConfig(Section):
    """Plots of what a trained model does, made after its evaluation."""

    gradient_flow: bool = setting(True, "Plot gradient norms against the distance back in time.")
    gradient_steps: int = setting(
        60, "Largest number of steps back from a loss; sentences may be shorter.", ge=1, le=10_000
    )
    gradient_rows: int = setting(64, "Largest number of windows of validation text.", ge=1, le=65_536)
    positions: bool = setting(
        False, "Plot the share of correct guesses against the position in the row, sentence mode."
    )
    given_tokens: NonNegativeInt = setting(
        8, "Number of tokens given at the start of each row before the model continues on its own."
    )


class TrackingConfig(Section):
    experiment: str = setting("rnnlm", "MLflow experiment.", min_length=1, changes_results=False)
    log_every_seconds: PositiveFloat = setting(
        10.0, "Seconds between progress lines, and between metrics sent to MLflow.", changes_results=False
    )


class LimitsConfig(Section):
    """Of a run of the flow `pipeline`."""

    hours: PositiveFloat | None = setting(
        None,
        "Longest wall time of a flow run, in hours; then it fails, and the next one goes on from its checkpoint. "
        "null: none.",
        changes_results=False,
    )
    retries: NonNegativeInt = setting(
        0, "Number of times that a flow run starts again after an unexpected error.", changes_results=False
    )
    retry_minutes: NonNegativeFloat = setting(15.0, "Minutes before it starts again.", changes_results=False)


class RegistryConfig(Section):
    """The registered model, and when a candidate replaces the champion; see rnnlm/evaluation/paired."""

    model_name: str | None = setting(
        None, "Name of the registered model. null: rnnlm-<corpus name>.", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
    )
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)] = setting(
        0.95, "Share of bootstrap resamples in which a candidate must be better (one-sided)."
    )
    resamples: int = setting(10_000, "Number of bootstrap resamples.", ge=100, le=1_000_000)
    minimum_units: int = setting(
        200, "Smallest number of documents to compare on; with fewer no candidate is promoted.", ge=2
    )
    seed: Seed = setting(0, "Seed of the bootstrap.")


class PipelineConfig(Section):
    # Only a name: rnnlm/presets.py looks its settings up. If they were filled in here, what a stored configuration
    # means would depend on what its preset says today.
    preset: Preset = setting(
        "default",
        "Preset whose settings the run starts from; settings that were changed by hand stay.",
        changes_results=False,
    )
    corpus: CorpusConfig = setting(CorpusConfig(), "Where the text comes from, and how it is read.")
    tokenizer: TokenizerConfig = setting(TokenizerConfig(), "How text becomes token ids.")
    sequences: SequencesConfig = setting(SequencesConfig(), "How token ids are cut into stored rows.")
    gates: GatesConfig = setting(GatesConfig(), "Checks of the data before training.")
    model: ModelConfig = setting(ModelConfig(), "The recurrent network.")
    training: TrainingConfig = setting(TrainingConfig(), "How the network is trained.")
    evaluation: EvaluationConfig = setting(EvaluationConfig(), "Perplexity after training.")
    generation: GenerationConfig = setting(GenerationConfig(), "Samples after training.")
    probes: ProbesConfig = setting(ProbesConfig(), "Plots of what the trained model does.")
    tracking: TrackingConfig = setting(TrackingConfig(), "MLflow tracking and progress lines.")
    registry: RegistryConfig = setting(RegistryConfig(), "Registration and promotion.")
    limits: LimitsConfig = setting(LimitsConfig(), "Time limit and retries of a flow run.")
    force: tuple[Stage, ...] = setting((), "Stages to run again even if verified output exists.", changes_results=False)

    @model_validator(mode="before")
    @classmethod
    def upgrade_older_configuration(cls, values: Any) -> Any:
        """Accept configurations stored by older versions, in run folders and deployments."""
        return upgrade(values)

    @model_validator(mode="after")
    def check_positions(self) -> "PipelineConfig":
        if self.probes.positions and self.sequences.mode != "sentence":
            raise ValueError("probes.positions needs sequences.mode=sentence: a running text has no rows")
        return self
