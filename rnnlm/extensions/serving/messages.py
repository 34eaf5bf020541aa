"""The service's JSON requests and answers. Their bounds also appear in the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from rnnlm.config import LOWEST_TEMPERATURE, GenerationConfig, Seed, Temperature, TopK, TopP

MAXIMUM_PROMPT = 20_000  # characters
MAXIMUM_TEXT = 100_000  # characters to score, of all texts of a request
MAXIMUM_TEXTS = 1_000  # of one request: each has an answer of its own, however short it is
MAXIMUM_EXPLAINED = 500  # characters to explain: each step has a long answer
UNITS_SHOWN = 64  # of the state that an explanation shows
MAXIMUM_TOKENS = 2_000  # generated for one prompt
SAMPLING_DEFAULTS = GenerationConfig()

Alternatives = Annotated[int, Field(ge=0, le=10, description="most probable tokens to list with each token")]


class Message(BaseModel):
    # strict: "5" is not a number. NaN and infinity are not JSON.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class GenerateRequest(Message):
    """A prompt to continue. The same request gives the same text, independent of other requests."""

    prompt: str = Field("", max_length=MAXIMUM_PROMPT, description="empty: start a new sequence")
    maximum_tokens: int = Field(SAMPLING_DEFAULTS.maximum_tokens, ge=1, le=MAXIMUM_TOKENS)
    temperature: Temperature = Field(
        SAMPLING_DEFAULTS.temperature, description=f"0 (greedy) or at least {LOWEST_TEMPERATURE}"
    )
    top_k: TopK = Field(SAMPLING_DEFAULTS.top_k, description="0: off")
    top_p: TopP = Field(SAMPLING_DEFAULTS.top_p, description="1: off")
    seed: Seed = SAMPLING_DEFAULTS.seed
    unknown: bool = Field(SAMPLING_DEFAULTS.unknown, description="whether the text may contain <unk>")
    alternatives: Alternatives = 0
    stream: bool = Field(False, description="send server-sent events: a Token each, then a Generated without tokens")


def text_form(value: Any) -> str:
    """Return the tag of one text or a list, so that an error names the list's item and not the other form, too."""
    return "list" if isinstance(value, list) else "text"


OneText = Annotated[str, Field(max_length=MAXIMUM_TEXT)]
TextOrTexts = Annotated[
    Annotated[OneText, Tag("text")] | Annotated[list[OneText], Field(max_length=MAXIMUM_TEXTS), Tag("list")],
    Discriminator(text_form),
]


class ScoreRequest(Message):
    """A text to score, or a list of texts that are scored apart from each other."""

    text: TextOrTexts = Field(
        description=f"one text, or up to {MAXIMUM_TEXTS:,} of up to {MAXIMUM_TEXT:,} characters together"
    )
    alternatives: Alternatives = 0

    @model_validator(mode="after")
    def check_characters(self) -> "ScoreRequest":
        characters = 0
        for index, text in enumerate(self.texts):
            characters += len(text)
            if characters > MAXIMUM_TEXT:
                raise ValueError(f"text {index}: the list has more than {MAXIMUM_TEXT:,} characters from here on")
        return self

    @property
    def texts(self) -> list[str]:
        return self.text if isinstance(self.text, list) else [self.text]


class ExplainRequest(Message):
    """A short text to explain step by step."""

    text: str = Field(max_length=MAXIMUM_EXPLAINED)
    alternatives: Alternatives = 3


class Alternative(Message):
    text: str
    probability: float


class Token(Message):
    """One token with its surprisal: minus the natural logarithm of its probability, before any sampling."""

    text: str = Field(description="what it adds to the text; empty while a character is incomplete")
    token_id: int
    surprisal_nats: float
    alternatives: list[Alternative] = Field(description="most probable first; may include the token itself")


Finish = Literal["end", "length", "time"]  # <eos>, maximum_tokens, or the service's limit on seconds


class Span(Message):
    """A part of a text."""

    start: int = Field(description="index of its first character, in code points")
    end: int = Field(description="index after its last character")


class Generated(Message):
    """The continuation, without the prompt."""

    model: str = Field(description="the model that wrote it, such as models:/NAME/3")
    text: str
    finish: Finish
    unknown_words: list[str] = Field(description="words of the prompt that the model does not know and reads as <unk>")
    unknown_spans: list[Span] = Field(description="where they are in the prompt")
    tokens: list[Token]


class ScoredToken(Token):
    start: int = Field(description="index of its first character in the text, in code points")
    end: int = Field(description="index after its last character")


class TextSums(Message):
    model: str
    log_probability_nats: float
    perplexity: float | None
    bits_per_byte: float | None = Field(description="an unknown word costs 8 bits per byte on top of its <unk>")
    byte_count: int = Field(description="of the text in UTF-8, with one for the end of its last line")
    unknown_tokens: int


class Scored(TextSums):
    """Sums over the whole text, computed as by `rnnlm evaluate`. null if there is nothing to score."""

    tokens: list[ScoredToken]


class ScoredTexts(Message):
    """The answer to a list: each text's own score, as if it had been sent alone."""

    texts: list[Scored] = Field(description="in the order of the request")


class ExplainedToken(ScoredToken):
    """One shifted pair: the model reads the input and predicts the token after it, which has the fields of Token."""

    input_text: str = Field(description="the token that the model reads")
    input_id: int
    starts_row: bool = Field(description="whether the state before it is zero")
    rank: int = Field(description="of the predicted token; 1: the most probable one")
    unknown: bool = Field(description="whether the predicted token is an unknown word, read as <unk>")
    spelling_bits: float = Field(description="what it costs, besides its surprisal, to restore an unknown word")
    state: list[list[float]] = Field(description="after the input: of each layer, bottom first, the units listed")


class Explained(TextSums):
    """Sums over the whole text, as in Scored, and each step."""

    hidden_size: int = Field(description="units of each layer's state")
    units: list[int] = Field(description=f"units shown of each layer's state; at most {UNITS_SHOWN} in all layers")
    steps: list[ExplainedToken]


class ModelFacts(Message):
    """Facts about the model. null: not known here."""

    model: str
    corpus: str | None = Field(description="name of the training corpus")
    corpus_bytes: int | None
    tokenizer: str = Field(description="word, char, bpe, unigram or pretrained")
    vocabulary_size: int
    layers: int
    hidden_size: int = Field(description="units per layer")
    weights: int = Field(description="trained numbers")
    perplexity: float | None = Field(description="on the corpus's test split")
    bits_per_byte: float | None = Field(description="on the corpus's test split")
    example_prompt: str = Field(description="an opening from held-out text of the corpus; empty if none is known")


class Health(Message):
    status: Literal["ok"] = "ok"


class Readiness(Message):
    status: Literal["ready"] = "ready"
    model: str
    vocabulary_size: int
    following_problem: str | None = Field(
        None, description="why the last checks for a newer model failed; null if they did not"
    )


class Problem(Message):
    """An error message."""

    detail: str
