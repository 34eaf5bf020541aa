"""What the service takes and gives, as JSON. The bounds stand in the OpenAPI document, too."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rnnlm.config import LOWEST_TEMPERATURE, GenerationConfig, Seed, Temperature, TopK, TopP

MAXIMUM_PROMPT = 20_000  # characters
MAXIMUM_TEXT = 100_000  # characters to score
MAXIMUM_TOKENS = 2_000  # generated for one prompt
DEFAULTS = GenerationConfig()

Alternatives = Annotated[int, Field(ge=0, le=10, description="likeliest tokens to name beside each one")]


class Message(BaseModel):
    # strict: "5" is no number. Not-a-number and infinity are no JSON.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class GenerateRequest(Message):
    """A prompt to continue. The same request gives the same text, whatever else the service is doing."""

    prompt: str = Field("", max_length=MAXIMUM_PROMPT, description="an empty one begins a sequence from nothing")
    maximum_tokens: int = Field(DEFAULTS.maximum_tokens, ge=1, le=MAXIMUM_TOKENS)
    temperature: Temperature = Field(DEFAULTS.temperature, description=f"0: greedy; else at least {LOWEST_TEMPERATURE}")
    top_k: TopK = Field(DEFAULTS.top_k, description="0: off")
    top_p: TopP = Field(DEFAULTS.top_p, description="1: off")
    seed: Seed = DEFAULTS.seed
    alternatives: Alternatives = 0
    stream: bool = Field(
        False, description="server-sent events: a Token each, then a Generated with its tokens left out"
    )


class ScoreRequest(Message):
    """A text whose probability is asked for."""

    text: str = Field(max_length=MAXIMUM_TEXT)
    alternatives: Alternatives = 0


class Alternative(Message):
    text: str
    probability: float


class Token(Message):
    """One token with its surprisal: minus the natural logarithm of what the model gave it, before any sampling."""

    text: str = Field(description="what it adds to the text; empty where a character is not complete yet")
    token_id: int
    surprisal_nats: float
    alternatives: list[Alternative] = Field(description="likeliest first, the token itself among them if it is one")


Finish = Literal["end", "length", "time"]  # <eos>, maximum_tokens, or the service's limit on seconds


class Generated(Message):
    """The continuation, without the prompt."""

    model: str = Field(description="which one wrote it, such as models:/NAME/3")
    text: str
    finish: Finish
    unknown_words: list[str] = Field(description="of the prompt: the model does not know them and read <unk>")
    tokens: list[Token]


class ScoredToken(Token):
    start: int = Field(description="its first character in the text, counted in code points")
    end: int = Field(description="one after its last")


class Scored(Message):
    """Sums over the whole text, as `rnnlm evaluate` reckons them. null where there is nothing to score."""

    model: str
    log_probability_nats: float
    perplexity: float | None
    bits_per_byte: float | None = Field(description="an unknown word costs 8 bits a byte on top of its <unk>")
    byte_count: int
    unknown_tokens: int
    tokens: list[ScoredToken]


class Health(Message):
    status: Literal["ok"] = "ok"


class Readiness(Message):
    status: Literal["ready"] = "ready"
    model: str
    vocabulary_size: int
    following_problem: str | None = Field(
        None, description="what kept the last looks for a newer model from an end; null if nothing did"
    )


class Problem(Message):
    """What was wrong, in words."""

    detail: str
