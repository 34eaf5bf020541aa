"""The service's JSON requests and answers. Their bounds also appear in the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from rnnlm.config import LOWEST_TEMPERATURE, GenerationConfig, Seed, Temperature, TopK, TopP

MAXIMUM_PROMPT = 20_000  # The largest number of characters in a prompt.
MAXIMUM_TEXT = 100_000  # The largest number of characters in all texts of a request together.
# The largest number of texts in a request. A limit is needed besides MAXIMUM_TEXT, because each of many short texts
# needs an answer.
MAXIMUM_TEXTS = 1_000
# The largest number of characters in a text to explain. It is small, because the answer for each step is long.
MAXIMUM_EXPLAINED = 500
UNITS_SHOWN = 64  # The largest number of units of the state that an explanation shows.
MAXIMUM_TOKENS = 2_000  # The largest number of tokens that are generated for one prompt.
SAMPLING_DEFAULTS = GenerationConfig()

Alternatives = Annotated[int, Field(ge=0, le=10, description="number of most probable tokens to list with each token")]


class Message(BaseModel):
    # In strict mode, "5" is not accepted as a number. NaN and infinity are not valid JSON.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class GenerateRequest(Message):
    """A prompt to continue.

    Equal requests always give equal texts, even if other requests run at the same time.
    """

    prompt: str = Field(
        "", max_length=MAXIMUM_PROMPT, description="text to continue; if it is empty, a new sequence is started"
    )
    maximum_tokens: int = Field(SAMPLING_DEFAULTS.maximum_tokens, ge=1, le=MAXIMUM_TOKENS)
    temperature: Temperature = Field(
        SAMPLING_DEFAULTS.temperature, description=f"0 (greedy) or at least {LOWEST_TEMPERATURE}"
    )
    top_k: TopK = Field(SAMPLING_DEFAULTS.top_k, description="if 0, all tokens may be drawn")
    top_p: TopP = Field(SAMPLING_DEFAULTS.top_p, description="if 1, all tokens may be drawn")
    seed: Seed = SAMPLING_DEFAULTS.seed
    unknown: bool = Field(SAMPLING_DEFAULTS.unknown, description="whether the text may contain <unk>")
    alternatives: Alternatives = 0
    stream: bool = Field(
        False, description="send server-sent events: a Token for each token, then a Generated without tokens"
    )


def text_form(value: Any) -> str:
    """Return a tag that says whether a value has the form of a single text or of a list.

    With tags, a validation error refers to the wrong item of a list, and not also to the form of a single text.
    """
    return "list" if isinstance(value, list) else "text"


OneText = Annotated[str, Field(max_length=MAXIMUM_TEXT)]
TextOrTexts = Annotated[
    Annotated[OneText, Tag("text")] | Annotated[list[OneText], Field(max_length=MAXIMUM_TEXTS), Tag("list")],
    Discriminator(text_form),
]


class ScoreRequest(Message):
    """A text to score, or a list of texts that are scored independently."""

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
                raise ValueError(
                    f"text {index}: the texts up to this one have more than {MAXIMUM_TEXT:,} characters; send fewer"
                )
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
    """A token with its surprisal, the negative natural logarithm of its probability before any sampling."""

    text: str = Field(description="the text that the token adds; empty while a character is incomplete")
    token_id: int
    surprisal_nats: float
    alternatives: list[Alternative] = Field(
        description="the most probable tokens in descending order; may include the token itself"
    )


# The reason why the text ended: <eos>, maximum_tokens, or the service's time limit.
Finish = Literal["end", "length", "time"]


class Span(Message):
    """A range of characters in a text."""

    start: int = Field(description="index of the first character, in code points")
    end: int = Field(description="index after its last character")


class Generated(Message):
    """The continuation, without the prompt."""

    model: str = Field(description="the model that generated the text, such as models:/NAME/3")
    text: str
    finish: Finish
    unknown_words: list[str] = Field(description="words of the prompt that the model does not know and reads as <unk>")
    unknown_spans: list[Span] = Field(description="ranges of the unknown words in the prompt")
    tokens: list[Token]


class ScoredToken(Token):
    start: int = Field(description="index of the token's first character in the text, in code points")
    end: int = Field(description="index after its last character")


class TextSums(Message):
    model: str
    log_probability_nats: float
    perplexity: float | None
    bits_per_byte: float | None = Field(
        description="for an unknown word, 8 bits per byte are added to the loss of its <unk>"
    )
    byte_count: int = Field(description="number of UTF-8 bytes of the text, including one for the end of its last line")
    unknown_tokens: int


class Scored(TextSums):
    """The scores that `rnnlm evaluate` computes for a text. Values are null if there is nothing to score."""

    tokens: list[ScoredToken]


class ScoredTexts(Message):
    """The answer to a list of texts. The score of each text does not depend on the other texts."""

    texts: list[Scored] = Field(description="scores of the texts, in the order of the request")


class ExplainedToken(ScoredToken):
    """A step of an explanation, in which the model reads one token and predicts the next.

    The fields inherited from Token describe the next token.
    """

    input_text: str = Field(description="the token that the model reads")
    input_id: int
    starts_row: bool = Field(description="whether the state before the input is zero")
    rank: int = Field(description="rank of the predicted token; 1 is the most probable token")
    unknown: bool = Field(description="whether the predicted token is an unknown word, read as <unk>")
    spelling_bits: float = Field(
        description="number of bits that are added to the surprisal for the spelling of an unknown word"
    )
    state: list[list[float]] = Field(
        description="the state after the input, as the values of `units` in each layer, bottom first"
    )


class Explained(TextSums):
    """The scores of a whole text, as in Scored, and each step of its explanation."""

    hidden_size: int = Field(description="number of units of each layer's state")
    units: list[int] = Field(description=f"units shown of each layer's state; at most {UNITS_SHOWN} in all layers")
    steps: list[ExplainedToken]


class ModelFacts(Message):
    """A description of the model. Unknown values are null."""

    model: str
    corpus: str | None = Field(description="name of the training corpus")
    corpus_bytes: int | None
    tokenizer: str = Field(description="kind of tokenizer, which is word, char, bpe, unigram or pretrained")
    vocabulary_size: int
    layers: int
    hidden_size: int = Field(description="number of units per layer")
    weights: int = Field(description="number of trained weights")
    perplexity: float | None = Field(description="perplexity on the test split of the corpus")
    bits_per_byte: float | None = Field(description="bits per byte on the test split of the corpus")
    example_prompt: str = Field(description="the beginning of held-out text of the corpus; empty if there is none")


class Health(Message):
    status: Literal["ok"] = "ok"


class Readiness(Message):
    status: Literal["ready"] = "ready"
    model: str
    vocabulary_size: int
    following_problem: str | None = Field(
        None, description="why the last checks for a newer model failed; null if they succeeded"
    )


class Problem(Message):
    """An error message."""

    detail: str
