"""Every tunable of the pipeline, in one frozen tree: one section a stage. Its flows' only parameter.

What single commands take lies with what they do: probes, evaluation/ngram, evaluation/on_top, scoring and serving have
a config.py of their own.
"""

from typing import Annotated, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_serializer,
    model_validator,
)

from rnnlm.redaction import redacted

Share = Annotated[float, Field(ge=0.0, lt=0.5)]
DropoutShare = Annotated[float, Field(ge=0.0, lt=1.0)]
LOWEST_TEMPERATURE = 0.01  # but 0: below it the quotients leave the range of a float32


def zero_or_computable(temperature: float) -> float:
    if 0 < temperature < LOWEST_TEMPERATURE:
        raise ValueError(f"temperature must be 0 (greedy) or at least {LOWEST_TEMPERATURE}")
    return temperature


# How to sample: the same bounds in the configuration, in the service and in the registered model, whose program
# (registry/served_model.py) repeats them, for it imports nothing of ours.
MaximumTokens = Annotated[int, Field(ge=1, le=100_000)]
Temperature = Annotated[float, Field(ge=0.0, le=100.0), AfterValidator(zero_or_computable)]  # 0: greedy
TopK = Annotated[int, Field(ge=0, lt=2**31)]  # 0: off
TopP = Annotated[float, Field(ge=1e-6, le=1.0)]  # 1: off
Seed = Annotated[int, Field(ge=0, lt=2**63)]

Stage = Literal["corpus", "tokenizer", "sequences", "training", "evaluation", "samples", "registration"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Nonlinearity = Literal["tanh", "relu"]
RecurrentInitialization = Literal["xavier", "orthogonal", "identity", "spread"]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)


class CorpusConfig(Section):
    source: str = Field(
        "python-docs", min_length=1, repr=False
    )  # catalogue name, hf:…, file, folder, glob or http(s) URL
    name: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")  # None: derived from the source
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")  # what a download must hash to
    # When a URL or hf: name is asked whether its text has changed: each run, never, or after 30m, 12h, 7d.
    refresh: str = Field("always", pattern=r"^(always|never|[1-9][0-9]{0,3}[mhd])$")
    format: Literal["auto", "text", "csv", "tsv", "jsonl", "parquet"] = "auto"  # auto: by the file's name
    column: str | None = None  # the text's, in csv, tsv, jsonl, Parquet and hf:; None: `text`
    encoding: str = "utf-8"  # of the source's files
    undecodable: Literal["refuse", "replace"] = "refuse"  # bytes that are not of that encoding
    normalization: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = "none"  # Unicode normalisation form
    lowercase: bool = False
    digits: str | None = Field(None, max_length=16)  # what each run of digits becomes, such as ###; None: stays
    valid_share: Share = 0.05  # of the documents, where the source gives no such split
    test_share: Share = 0.05
    maximum_unpacked_bytes: PositiveInt = 1 << 40  # of one source, after decompression
    maximum_unpacking_ratio: PositiveFloat = 200.0  # unpacked over packed bytes, from the first 16 MiB on
    maximum_archive_members: PositiveInt = 10_000
    maximum_download_bytes: PositiveInt = 200_000_000_000  # of one download
    maximum_download_seconds: PositiveFloat = 172_800.0  # from its first request to its last byte

    @property
    def public_source(self) -> str:
        """The source without passwords and signatures: what is shown and kept."""
        return redacted(self.source)

    @field_serializer("source")
    def without_secrets(self, source: str) -> str:
        return redacted(source)


class TokenizerConfig(Section):
    # One of char, word, bpe, unigram, or pretrained:NAME_OR_PATH for AutoTokenizer.
    kind: str = Field("word", pattern=r"^(char|word|bpe|unigram|pretrained:.+)$")
    splitting: Literal["whitespace", "punctuation", "textbook"] = "whitespace"  # what a word is
    # 10,003 holds the 10,000 words of the Penn Treebank, <unk> among them, and <pad>, <bos>, <eos>.
    vocabulary_size: int = Field(10_003, ge=16, le=1_000_000)  # ids at most, special tokens included
    minimum_count: PositiveInt = 1  # a rarer word, character or merge of the training split gets no id
    unknown_literal: str | None = "<unk>"  # how the corpus itself spells an unknown word
    training_bytes: PositiveInt = 200_000_000  # of text that subwords are learnt from at most, evenly spread

    @model_validator(mode="after")
    def bytes_fit(self) -> "TokenizerConfig":
        if self.kind in ("bpe", "unigram") and self.vocabulary_size < 260:
            raise ValueError(f"{self.kind} needs a vocabulary_size of at least 260 (256 bytes, 4 special tokens)")
        return self


class SequencesConfig(Section):
    mode: Literal["sentence", "stream"] = "sentence"
    context_length: int = Field(64, ge=1, le=65_536)  # predicted tokens a row at most, sentence mode
    block_length: int = Field(128, ge=2, le=1_048_576)  # predicted tokens a stored row, stream mode
    maximum_leakage: float = Field(1.0, ge=0.0, le=1.0)  # share of a held-out split found in training text; 1: any
    processes: int | None = Field(None, ge=1, le=1_024)  # that tokenize; None: one a CPU core. Changes no result
    memory_mebibytes: int = Field(128, ge=16, le=1_048_576)  # of DuckDB while it stores. Changes no result


class ModelConfig(Section):
    hidden_size: int = Field(128, ge=1, le=16_384)
    input: Literal["embedding", "one-hot"] = "embedding"  # one-hot: the embedding is the identity and stays it
    embedding_size: int | None = Field(None, ge=1, le=16_384)  # None: hidden_size; one-hot: the vocabulary
    layers: int = Field(1, ge=1, le=64)
    residual: bool = False  # layers but the lowest read what is below normalised, and add to it; one: none
    nonlinearity: Nonlinearity = "tanh"
    recurrence: Literal["full", "diagonal"] = "full"  # U; diagonal: a unit sees its own past alone
    recurrent_initialization: RecurrentInitialization = "orthogonal"  # of U; spread: a diagonal from 0 to 1
    tie_embeddings: bool = False  # the head's matrix is the embedding's; sizes that differ: a matrix before the head
    head_bias: Literal["zero", "unigram"] = "unigram"  # unigram: log training frequencies
    backend: Literal["fused", "loop"] = "fused"  # the same function: kernel, or readable Python

    @model_validator(mode="after")
    def diagonals_begin_as_diagonals(self) -> "ModelConfig":
        if self.recurrence == "diagonal" and self.recurrent_initialization not in ("identity", "spread"):
            raise ValueError("recurrence=diagonal needs recurrent_initialization=identity or spread")
        return self

    @model_validator(mode="after")
    def one_hot_is_fixed(self) -> "ModelConfig":
        if self.input == "one-hot" and (self.tie_embeddings or self.embedding_size is not None):
            raise ValueError("input=one-hot needs tie_embeddings=false and no embedding_size: both follow from it")
        return self


class TrainingConfig(Section):
    loss: Literal["exact", "sampled"] = "exact"  # sampled: faster with a large vocabulary; scores stay exact
    sampled_classes: PositiveInt = 1_024  # of the vocabulary, in each step's sample
    precision: Literal["float32", "bfloat16"] = "float32"  # of the large products; a GPU's in the layers: TF32
    epochs: PositiveInt = 1
    maximum_tokens: PositiveInt | None = None  # of training: the schedule is made for about so many; None: all epochs
    batch_size: PositiveInt = 32  # sequences (sentence) or lanes (stream) a step, over all processes
    accumulation: PositiveInt = 1  # micro-batches that a process takes its rows of a step in: less memory, same step
    processes: PositiveInt = 1  # that train together, over all nodes; each takes batch_size / processes rows
    nodes: PositiveInt = 1  # machines; all but this one are started by hand: docs/how-to/several-processes.md
    rendezvous: str | None = Field(None, pattern=r"^[^\s:]+:[0-9]+$")  # host:port of this machine, for the others
    restarts: NonNegativeInt = 2  # of the processes after one of them died. Changes no result
    reader_processes: int = Field(0, ge=0, le=256)  # that read ahead; 0: none. Changes no result
    window_length: PositiveInt = 35  # predicted tokens between two detachments of the state, stream mode
    learning_rate: PositiveFloat = 4e-3  # peak
    weight_decay: NonNegativeFloat = 0.01
    clip_norm: PositiveFloat = 1.0  # global L2 norm of the gradients
    warmup_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.05  # of all steps, linear from 0
    schedule: Literal["constant", "linear", "cosine", "plateau"] = "linear"  # after warm-up; linear, cosine: to 0
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5  # plateau: the rate is multiplied by it
    plateau_patience: PositiveInt = 2  # plateau: evaluations in a row without a better validation loss
    # Dropout: shares set to zero while training; 0: off. Locked: one mask a sequence, the same at all its time steps.
    dropout_words: DropoutShare = 0.0  # of the vocabulary: whole rows of the embedding
    dropout_inputs: DropoutShare = 0.0  # of the embedding's units, locked
    dropout_layers: DropoutShare = 0.0  # of the units between layers, locked
    dropout_outputs: DropoutShare = 0.0  # of the top layer's units, locked
    dropout_recurrent: DropoutShare = 0.0  # of the weights in U, one mask a batch
    averaging: Literal["none", "mean", "exponential"] = "none"  # of the weights; what is evaluated and kept
    averaging_start: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5  # share of all steps; the next one is averaged first
    averaging_every: PositiveInt = 10  # steps from one that is averaged to the next
    averaging_decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.99  # exponential: of what was, an update
    temperature_scaling: bool = False  # at the end: logits over the number that suits the validation split best
    early_stopping_patience: PositiveInt | None = None  # evaluations without a better perplexity; None: never stop
    evaluations: PositiveInt = 3  # on validation text, evenly spaced, the last one at the end
    evaluation_tokens: PositiveInt | None = 20_000  # of the validation split, for them: at most a third; None: a third
    checkpoint_every_seconds: PositiveFloat = 120.0  # and before each evaluation. Changes no result
    checkpoints_kept: PositiveInt = 3  # the newest. Changes no result
    explosion_factor: Annotated[float, Field(gt=1.0)] = 10.0  # times a uniform guess's loss: training has diverged
    divergence_retries: NonNegativeInt = 0  # from the last good checkpoint, each time at half the learning rate
    seed: Seed = 0
    deterministic: bool = False  # refuse algorithms whose results vary from call to call
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    resident_tokens: NonNegativeInt = 2_000_000_000  # a GPU holds a training split up to so many. Changes no result
    cuda_graphs: bool = False  # a GPU replays recorded steps: for small models; one process

    @model_validator(mode="after")
    def rows_are_shared_evenly(self) -> "TrainingConfig":
        if self.batch_size % self.processes:
            raise ValueError(f"batch_size {self.batch_size} must be a multiple of processes, which is {self.processes}")
        rows = self.batch_size // self.processes
        if rows % self.accumulation:
            raise ValueError(f"accumulation {self.accumulation} must divide the {rows} rows of each process")
        return self

    @model_validator(mode="after")
    def nodes_find_each_other(self) -> "TrainingConfig":
        if self.processes % self.nodes:
            raise ValueError(f"processes {self.processes} must be a multiple of nodes, which is {self.nodes}")
        if (self.nodes > 1) != (self.rendezvous is not None):
            raise ValueError("nodes above 1 and rendezvous=host:port are given together")
        return self

    @model_validator(mode="after")
    def patience_can_run_out(self) -> "TrainingConfig":
        """The first evaluation is the first best: only the others can fail to be better."""
        patience = {
            "early_stopping_patience": self.early_stopping_patience,
            "plateau_patience": self.plateau_patience if self.schedule == "plateau" else None,
        }
        for name, evaluations in patience.items():
            if evaluations is not None and evaluations >= self.evaluations:
                raise ValueError(f"{name}={evaluations} needs evaluations of at least {evaluations + 1}")
        return self


class EvaluationConfig(Section):
    splits: tuple[Literal["train", "valid", "test"], ...] = ("valid", "test")
    batch_size: PositiveInt = 64  # sequences at once, sentence mode; changes no result

    @model_validator(mode="after")
    def valid_and_test_are_scored(self) -> "EvaluationConfig":
        if not {"valid", "test"} <= set(self.splits):
            raise ValueError("splits must hold valid (promotion compares it) and test (the figure reported)")
        return self


class GenerationConfig(Section):
    prompts: tuple[str, ...] | None = None  # None: the empty prompt and openings of validation sequences
    maximum_tokens: MaximumTokens = 40  # a sample at most
    temperature: Temperature = 0.8  # 0: greedy
    top_k: TopK = 0  # 0: off
    top_p: TopP = 0.95  # 1: off
    seed: Seed = 0


class ProbesConfig(Section):
    """Pictures of what a trained model does, drawn after its evaluation."""

    gradient_flow: bool = True  # the gradient's norm against the distance back in time
    gradient_steps: int = Field(60, ge=1, le=10_000)  # back from a loss at most; sentences end sooner
    gradient_rows: int = Field(64, ge=1, le=65_536)  # windows of validation text at most
    positions: bool = False  # the share of right guesses against the position in the row, sentence mode
    given_tokens: NonNegativeInt = 8  # of each row, before the model goes on alone


class TrackingConfig(Section):
    experiment: str = Field("rnnlm", min_length=1)
    log_every_seconds: PositiveFloat = 10.0  # between log lines and flushes of metrics


class RegistryConfig(Section):
    model_name: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")  # None: rnnlm-<corpus name>
    # When a candidate takes over from the champion; see rnnlm/evaluation/paired.
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95  # one-sided: share of resamples in which it is better
    resamples: int = Field(10_000, ge=100, le=1_000_000)  # of the bootstrap
    minimum_units: int = Field(200, ge=2)  # documents to compare on; with fewer nobody takes over
    seed: Seed = 0  # of the resamples


class PipelineConfig(Section):
    corpus: CorpusConfig = CorpusConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    sequences: SequencesConfig = SequencesConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    generation: GenerationConfig = GenerationConfig()
    probes: ProbesConfig = ProbesConfig()
    tracking: TrackingConfig = TrackingConfig()
    registry: RegistryConfig = RegistryConfig()
    force: tuple[Stage, ...] = ()  # stages to run again although their verified output exists

    @model_validator(mode="after")
    def positions_are_of_rows(self) -> "PipelineConfig":
        if self.probes.positions and self.sequences.mode != "sentence":
            raise ValueError("probes.positions needs sequences.mode=sentence: a running text has no rows")
        return self
