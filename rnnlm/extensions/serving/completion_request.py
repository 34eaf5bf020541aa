"""The fields of a request in OpenAI's completions API."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from rnnlm.config import Seed, Temperature, TopP
from rnnlm.extensions.serving.messages import MAXIMUM_PROMPT, MAXIMUM_TOKENS

MAXIMUM_CHOICES = 128  # The largest number of choices in a request.

TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MAXIMUM_PROMPT)]
TextPrompt = Annotated[str, Field(max_length=MAXIMUM_PROMPT)]


def check_zero(value: float) -> float:
    """Return the number if it is 0, else raise a validation error."""
    if value:
        raise PydanticCustomError(
            "unsupported", "expected 0: other numbers would change the text, and are not supported"
        )
    return value


Zero = Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": 0}), AfterValidator(check_zero)]


class FieldsOrDefaults(BaseModel):
    """A message in which a null field gets its default. Many clients send null for fields that they do not set."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def without_nulls(cls, fields: Any) -> Any:
        return (
            {name: value for name, value in fields.items() if value is not None} if isinstance(fields, dict) else fields
        )


class StreamOptions(FieldsOrDefaults):
    include_usage: bool = Field(False, description="send the numbers of tokens before the end of the stream")


class CompletionRequest(FieldsOrDefaults):
    """A request of OpenAI's completions API."""

    model: str = Field("", description="label or registered name of the served model; it may be empty")
    prompt: TextPrompt | TokenIds | Annotated[list[TextPrompt], Field(min_length=1)] | list[TokenIds] = ""
    max_tokens: int = Field(
        16, ge=0, le=MAXIMUM_TOKENS, description="number of tokens to generate; if 0, only the echoed prompt is scored"
    )
    temperature: Temperature = 1.0
    top_p: TopP = 1.0
    n: int = Field(1, ge=1, le=MAXIMUM_CHOICES)
    seed: Seed | None = Field(None, description="if null, each request gives a different text")
    stop: str | list[str] | None = Field(None, description="strings before which the text ends")
    stream: bool = False
    echo: bool = Field(False, description="begin the text with the prompt")
    logprobs: int | None = Field(
        None, ge=0, le=10, description="number of most probable tokens to list with each token"
    )
    stream_options: StreamOptions = StreamOptions()
    best_of: int = Field(1, ge=1, le=1)
    frequency_penalty: Zero = 0
    presence_penalty: Zero = 0
    logit_bias: dict[str, Zero] = Field(
        {}, description="only 0 is accepted, because other values would change the text"
    )
    suffix: Literal[""] = ""

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each of which is a text or a list of token ids."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if not self.prompt:
            return [""]
        ids = [item for item in self.prompt if isinstance(item, int)]
        return [ids] if ids else [item for item in self.prompt if not isinstance(item, int)]

    @property
    def stops(self) -> list[str]:
        """The stop strings, without empty ones."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in given if text]
