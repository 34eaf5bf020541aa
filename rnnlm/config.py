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

from rnnlm.config_paths import upgrade
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
Nonlinearity = Literal["tanh", "relu"]
Backend = Literal["fused", "loop"]
RecurrentInitialization = Literal["xavier", "orthogonal", "identity", "spread"]

SAME_RESULTS: dict[str, JsonValue] = {"changes_results": False}  # a field's json_schema_extra


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)


def changes_results(field: FieldInfo) -> bool:
    """Whether a field can change the result of its stage; every field can unless it is marked SAME_RESULTS."""
    return field.json_schema_extra != SAME_RESULTS


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
    source: str = Field(
        "python-docs",
        min_length=1,
        repr=False,
        description="Catalogue name, hf:OWNER/NAME[:CONFIG], file, folder, glob or http(s) URL.",
    )
    name: str | None = Field(
        None, pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", description="Name of the corpus. null: derived from the source."
    )
    sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="Expected SHA-256 of the download. null: not checked."
    )
    refresh: str = Field(
        "always",
        pattern=r"^(always|never|[1-9][0-9]{0,3}[mhd])$",
        description="When to ask a URL or hf: source for a newer text: always (each run), never, or at most once in a "
        "period such as 30m, 12h or 7d.",
    )
    format: Literal["auto", "text", "csv", "tsv", "jsonl", "parquet"] = Field(
        "auto", description="Format of the source's files. auto: by file name."
    )
    column: str | None = Field(
        None, description="Column with the text, for csv, tsv, jsonl, parquet and hf: sources. null: `text`."
    )
    encoding: str = Field("utf-8", description="Text encoding of the source's files.")
    undecodable: Literal["refuse", "replace"] = Field(
        "refuse", description="What to do with bytes that are invalid in the encoding."
    )
    normalization: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = Field(
        "none", description="Unicode normalization form applied to the text."
    )
    lowercase: bool = Field(False, description="Lowercase the text.")
    digits: str | None = Field(
        None, max_length=16, description="Replacement for each run of digits, such as ###. null: digits stay."
    )
    valid_share: SplitShare = Field(
        0.05, description="Share of documents for the validation split, if the source has no such split."
    )
    test_share: SplitShare = Field(
        0.05, description="Share of documents for the test split, if the source has no such split."
    )
    maximum_unpacked_bytes: PositiveInt = Field(
        1 << 40, description="Largest size of a source after decompression, in bytes.", json_schema_extra=SAME_RESULTS
    )
    maximum_unpacking_ratio: PositiveFloat = Field(
        200.0,
        description="Largest ratio of unpacked to packed bytes, checked from 16 MiB on.",
        json_schema_extra=SAME_RESULTS,
    )
    maximum_archive_members: PositiveInt = Field(
        10_000, description="Largest number of files in an archive.", json_schema_extra=SAME_RESULTS
    )
    maximum_download_bytes: PositiveInt = Field(
        200_000_000_000, description="Largest size of a download, in bytes.", json_schema_extra=SAME_RESULTS
    )
    maximum_download_seconds: PositiveFloat = Field(
        172_800.0,
        description="Longest time for a download, from first request to last byte, in seconds.",
        json_schema_extra=SAME_RESULTS,
    )

    @property
    def public_source(self) -> str:
        """The source without passwords and signatures, safe to show and store."""
        return redacted(self.source)

    @field_serializer("source")
    def without_secrets(self, source: str) -> str:
        return redacted(source)


class TokenizerConfig(Section):
    kind: str = Field(
        "word",
        pattern=r"^(char|word|bpe|unigram|pretrained:.+)$",
        description="char, word, bpe, unigram, or pretrained:NAME_OR_PATH for a Hugging Face tokenizer.",
    )
    splitting: Literal["whitespace", "punctuation", "textbook"] = Field(
        "whitespace", description="How text is split into words."
    )
    # 10,003: the 10,000 words of the Penn Treebank (with <unk>), <pad>, <bos> and <eos>.
    vocabulary_size: int = Field(
        10_003, ge=16, le=1_000_000, description="Largest number of token ids, special tokens included."
    )
    minimum_count: PositiveInt = Field(
        1, description="Words, characters and merges that occur less often in the training split get no id."
    )
    unknown_literal: str | None = Field("<unk>", description="How the corpus itself spells an unknown word.")
    training_bytes: PositiveInt = Field(
        200_000_000,
        description="Largest amount of text, in bytes, to learn subwords from, spread evenly over the split.",
    )

    @model_validator(mode="after")
    def check_byte_alphabet(self) -> "TokenizerConfig":
        if self.kind in ("bpe", "unigram") and self.vocabulary_size < 260:
            raise ValueError(f"{self.kind} needs a vocabulary_size of at least 260 (256 bytes, 4 special tokens)")
        return self


class SequencesConfig(Section):
    mode: Literal["sentence", "stream"] = Field(
        "sentence", description="sentence: each line is a sequence. stream: the corpus is one running text."
    )
    context_length: int = Field(
        64, ge=1, le=65_536, description="Largest number of predicted tokens per stored row, sentence mode."
    )
    block_length: int = Field(
        128, ge=2, le=1_048_576, description="Number of predicted tokens per stored row, stream mode."
    )
    maximum_leakage: float = Field(
        1.0,
        ge=0.0,
        le=1.0,
        description="Largest allowed share of a held-out split that also occurs in the training text. 1: any.",
        json_schema_extra=SAME_RESULTS,  # checked whenever a dataset is used, stored or not
    )
    processes: int | None = Field(
        None,
        ge=1,
        le=1_024,
        description="Number of processes that tokenize. null: one per CPU core.",
        json_schema_extra=SAME_RESULTS,
    )
    memory_mebibytes: int = Field(
        128,
        ge=16,
        le=1_048_576,
        description="Memory limit of DuckDB while it stores sequences, in MiB.",
        json_schema_extra=SAME_RESULTS,
    )


class ModelConfig(Section):
    hidden_size: int = Field(256, ge=1, le=16_384, description="Number of units per layer.")
    input: Literal["embedding", "one-hot"] = Field(
        "embedding", description="one-hot: the embedding is the identity matrix and is not trained."
    )
    embedding_size: int | None = Field(
        None, ge=1, le=16_384, description="Size of token embeddings. null: hidden_size, or the vocabulary if one-hot."
    )
    layers: int = Field(1, ge=1, le=64, description="Number of recurrent layers.")
    residual: bool = Field(False, description="Pre-norm residual connections between layers; no effect with one layer.")
    nonlinearity: Nonlinearity = Field("tanh", description="Activation function of the recurrent layers.")
    recurrence: Literal["full", "diagonal"] = Field(
        "full", description="Recurrent matrix U. diagonal: each unit reads only its own previous state."
    )
    recurrent_initialization: RecurrentInitialization = Field(
        "identity", description="Initial recurrent matrix U. spread: a diagonal from 0 to 1."
    )
    tie_embeddings: bool = Field(
        True,
        description="Share the output matrix with the embedding; if sizes differ, a projection precedes it.",
    )
    head_bias: Literal["zero", "unigram"] = Field(
        "unigram", description="Initial output bias. unigram: log frequencies of the training split."
    )
    backend: Backend = Field(
        "fused", description="Implementation of the same function. fused: fast kernels. loop: readable Python."
    )

    @model_validator(mode="after")
    def check_diagonal(self) -> "ModelConfig":
        if self.recurrence == "diagonal" and self.recurrent_initialization not in ("identity", "spread"):
            raise ValueError("recurrence=diagonal needs recurrent_initialization=identity or spread")
        return self

    @model_validator(mode="after")
    def check_one_hot(self) -> "ModelConfig":
        if self.input == "one-hot" and (self.tie_embeddings or self.embedding_size is not None):
            raise ValueError("input=one-hot needs tie_embeddings=false and embedding_size=null")
        return self


class LossConfig(Section):
    kind: Literal["exact", "sampled"] = Field(
        "sampled",
        description="Training loss. sampled: faster with a large vocabulary. Evaluation always uses the exact softmax.",
    )
    sampled_classes: PositiveInt = Field(
        1_024, description="Number of classes in each step's sample, if kind is sampled."
    )


class OptimizerConfig(Section):
    """AdamW with gradient clipping."""

    learning_rate: PositiveFloat = Field(4e-3, description="Peak learning rate.")
    weight_decay: NonNegativeFloat = Field(0.01, description="Decoupled weight decay, applied to matrices only.")
    clip_norm: PositiveFloat = Field(1.0, description="Largest global L2 norm of the gradients.")


class ScheduleConfig(Section):
    """The learning rate over time."""

    kind: Literal["constant", "linear", "cosine", "plateau"] = Field(
        "cosine", description="Learning rate after warm-up. linear, cosine: decay to 0. plateau: lower it on plateaus."
    )
    warmup_share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.05, description="Share of all steps in which the learning rate rises linearly to its peak."
    )
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.5, description="Factor by which the learning rate is multiplied on each plateau."
    )
    plateau_patience: PositiveInt = Field(
        2, description="Number of validations without a better loss after which the learning rate is lowered."
    )


class DropoutConfig(Section):
    """Shares set to zero during training; 0 turns a kind off. Locked: one mask per sequence, for all time steps."""

    words: DropoutShare = Field(0.0, description="Share of the vocabulary whose embedding rows are dropped.")
    inputs: DropoutShare = Field(0.2, description="Locked dropout of embedding units.")
    layers: DropoutShare = Field(0.0, description="Locked dropout of units between layers.")
    outputs: DropoutShare = Field(0.2, description="Locked dropout of the top layer's units.")
    recurrent: DropoutShare = Field(0.0, description="Dropout of weights in U, one mask per batch.")


class AveragingConfig(Section):
    """Averaged weights, which are then evaluated and saved instead of the trained ones."""

    kind: Literal["none", "mean", "exponential"] = Field("none", description="Kind of weight averaging.")
    start_share: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        0.5, description="Share of all steps after which averaging starts."
    )
    every_steps: PositiveInt = Field(10, description="Number of steps from one update of the average to the next.")
    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.99, description="Weight of the old average in each update, if kind is exponential."
    )


class ValidationConfig(Section):
    """Validation during training, evenly spaced; the last one is at the end."""

    evaluations: PositiveInt = Field(3, description="Number of validations.")
    tokens: PositiveInt | None = Field(
        20_000,
        description="Number of predicted tokens of the validation split to use: at most a third of it. null: a third.",
    )
    early_stopping_patience: PositiveInt | None = Field(
        None, description="Stop after this many validations without a better perplexity. null: never."
    )


class CheckpointsConfig(Section):
    every_seconds: PositiveFloat = Field(
        120.0,
        description="Seconds between checkpoints; one is also written before each validation.",
        json_schema_extra=SAME_RESULTS,
    )
    kept: PositiveInt = Field(3, description="Number of newest checkpoints to keep.", json_schema_extra=SAME_RESULTS)


class DivergenceConfig(Section):
    explosion_factor: Annotated[float, Field(gt=1.0)] = Field(
        10.0, description="Training has diverged if its loss exceeds this multiple of a uniform guess's loss."
    )
    retries: NonNegativeInt = Field(
        0, description="Number of rollbacks to the last good checkpoint, each with half the learning rate."
    )


class DistributedConfig(Section):
    """Data-parallel training in several processes."""

    # It changes how sums are rounded, and so the result.
    processes: PositiveInt = Field(
        1, description="Number of training processes on all nodes; each takes batch_size / processes rows."
    )
    nodes: PositiveInt = Field(
        1,
        description="Number of machines; start the others by hand with `rnnlm join`.",
        json_schema_extra=SAME_RESULTS,
    )
    rendezvous: str | None = Field(
        None,
        pattern=r"^[^\s:]+:[0-9]+$",
        description="host:port of this machine, at which the other nodes join.",
        json_schema_extra=SAME_RESULTS,
    )
    restarts: NonNegativeInt = Field(
        2, description="Number of restarts after a training process has died.", json_schema_extra=SAME_RESULTS
    )

    @model_validator(mode="after")
    def check_nodes(self) -> "DistributedConfig":
        if self.processes % self.nodes:
            raise ValueError(f"processes {self.processes} must be a multiple of nodes {self.nodes}")
        if (self.nodes > 1) != (self.rendezvous is not None):
            raise ValueError("nodes above 1 and rendezvous=host:port must be set together")
        return self


class FeedConfig(Section):
    reader_processes: int = Field(
        0,
        ge=0,
        le=256,
        description="Number of processes that read batches ahead. 0: none.",
        json_schema_extra=SAME_RESULTS,
    )
    resident_tokens: NonNegativeInt = Field(
        2_000_000_000,
        description="A GPU holds the whole training split if it has at most this many tokens.",
        json_schema_extra=SAME_RESULTS,
    )


class TrainingConfig(Section):
    epochs: PositiveInt = Field(3, description="Number of passes over the training split.")
    maximum_tokens: PositiveInt | None = Field(
        None, description="Approximate number of tokens to train on; the schedule is made for it. null: all epochs."
    )
    batch_size: PositiveInt = Field(
        64, description="Number of sequences (sentence mode) or lanes (stream mode) per step, over all processes."
    )
    window_length: PositiveInt = Field(
        35, description="Number of predicted tokens between two detachments of the state, stream mode."
    )
    accumulation: PositiveInt = Field(
        1, description="Number of micro-batches per step and process: less memory for the same step."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="Precision of large matrix products; with bfloat16 a GPU's layers use TF32."
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="Where to train. auto: cuda if there is one, else mps, else cpu."
    )
    cuda_graphs: bool = Field(
        False, description="Replay recorded steps on a GPU: faster for small models; one process only."
    )
    deterministic: bool = Field(False, description="Refuse algorithms whose results vary between calls.")
    seed: Seed = Field(0, description="Seed of initial weights, batch order, dropout and samples.")
    temperature_scaling: bool = Field(
        False, description="After training, divide the logits by the temperature that fits the validation split best."
    )
    loss: LossConfig = Field(LossConfig(), description="Training loss.")
    optimizer: OptimizerConfig = Field(OptimizerConfig(), description="Optimizer and gradient clipping.")
    schedule: ScheduleConfig = Field(ScheduleConfig(), description="Learning rate over time.")
    dropout: DropoutConfig = Field(DropoutConfig(), description="Dropout during training.")
    averaging: AveragingConfig = Field(AveragingConfig(), description="Weight averaging.")
    validation: ValidationConfig = Field(ValidationConfig(), description="Validation during training.")
    checkpoints: CheckpointsConfig = Field(CheckpointsConfig(), description="Checkpoints of unfinished runs.")
    divergence: DivergenceConfig = Field(DivergenceConfig(), description="Detection of divergence, and rollbacks.")
    distributed: DistributedConfig = Field(DistributedConfig(), description="Training in several processes.")
    feed: FeedConfig = Field(FeedConfig(), description="How batches reach the model.")

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
    splits: tuple[Literal["train", "valid", "test"], ...] = Field(
        ("valid", "test"), description="Splits to score after training; valid and test are required."
    )
    batch_size: PositiveInt = Field(
        64, description="Number of sequences scored together, sentence mode.", json_schema_extra=SAME_RESULTS
    )

    @model_validator(mode="after")
    def check_splits(self) -> "EvaluationConfig":
        if not {"valid", "test"} <= set(self.splits):
            raise ValueError("splits must include valid (compared for promotion) and test (reported)")
        return self


class GenerationConfig(Section):
    prompts: tuple[str, ...] | None = Field(
        None, description="Texts to continue. null: the empty prompt and the beginnings of validation sequences."
    )
    maximum_tokens: MaximumTokens = Field(40, description="Largest number of tokens per sample.")
    temperature: Temperature = Field(0.8, description="Sampling temperature. 0: greedy.")
    top_k: TopK = Field(0, description="Sample from this many most likely tokens. 0: off.")
    top_p: TopP = Field(0.95, description="Sample from the fewest tokens with this total probability. 1: off.")
    seed: Seed = Field(0, description="Seed of the samples.")


class ProbesConfig(Section):
    """Plots of what a trained model does, made after its evaluation."""

    gradient_flow: bool = Field(True, description="Plot gradient norms against the distance back in time.")
    gradient_steps: int = Field(
        60, ge=1, le=10_000, description="Largest number of steps back from a loss; sentences may be shorter."
    )
    gradient_rows: int = Field(64, ge=1, le=65_536, description="Largest number of windows of validation text.")
    positions: bool = Field(
        False, description="Plot the share of correct guesses against the position in the row, sentence mode."
    )
    given_tokens: NonNegativeInt = Field(
        8, description="Number of tokens given at the start of each row before the model continues on its own."
    )


class TrackingConfig(Section):
    experiment: str = Field("rnnlm", min_length=1, description="MLflow experiment.", json_schema_extra=SAME_RESULTS)
    log_every_seconds: PositiveFloat = Field(
        10.0,
        description="Seconds between progress lines, and between metrics sent to MLflow.",
        json_schema_extra=SAME_RESULTS,
    )


class RegistryConfig(Section):
    """The registered model, and when a candidate replaces the champion; see rnnlm/evaluation/paired."""

    model_name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Name of the registered model. null: rnnlm-<corpus name>.",
    )
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)] = Field(
        0.95, description="Share of bootstrap resamples in which a candidate must be better (one-sided)."
    )
    resamples: int = Field(10_000, ge=100, le=1_000_000, description="Number of bootstrap resamples.")
    minimum_units: int = Field(
        200, ge=2, description="Smallest number of documents to compare on; with fewer no candidate is promoted."
    )
    seed: Seed = Field(0, description="Seed of the bootstrap.")


class PipelineConfig(Section):
    corpus: CorpusConfig = Field(CorpusConfig(), description="Where the text comes from, and how it is read.")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="How text becomes token ids.")
    sequences: SequencesConfig = Field(SequencesConfig(), description="How token ids are cut into stored rows.")
    model: ModelConfig = Field(ModelConfig(), description="The recurrent network.")
    training: TrainingConfig = Field(TrainingConfig(), description="How the network is trained.")
    evaluation: EvaluationConfig = Field(EvaluationConfig(), description="Perplexity after training.")
    generation: GenerationConfig = Field(GenerationConfig(), description="Samples after training.")
    probes: ProbesConfig = Field(ProbesConfig(), description="Plots of what the trained model does.")
    tracking: TrackingConfig = Field(TrackingConfig(), description="MLflow tracking and progress lines.")
    registry: RegistryConfig = Field(RegistryConfig(), description="Registration and promotion.")
    force: tuple[Stage, ...] = Field(
        (), description="Stages to run again even if verified output exists.", json_schema_extra=SAME_RESULTS
    )

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
