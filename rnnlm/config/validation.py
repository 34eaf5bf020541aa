"""Validation of settings. Errors have at most three lines and use the names that the user entered."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rnnlm.errors import ConfigError
from rnnlm.storage.redaction import redacted

M = TypeVar("M", bound=BaseModel)
# The largest number of problems that an error shows. Its last line says how many more there are.
PROBLEMS_SHOWN = 2
MESSAGES = {  # The text with the expected value for each of pydantic's error types.
    "missing": "is required",
    "extra_forbidden": "there is no such field",
    "greater_than_equal": "expected at least {ge:,}",
    "greater_than": "expected more than {gt:,}",
    "less_than_equal": "expected at most {le:,}",
    "less_than": "expected less than {lt:,}",
    "int_parsing": "expected a whole number",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "string_type": "expected text",
    "string_unicode": "expected text in UTF-8; if a file's name has another encoding, give its folder",
    "string_too_short": "expected at least {min_length} character(s)",
    "string_too_long": "expected at most {max_length:,} characters",
    "tuple_type": "expected a list, such as [1, 2]",
    "literal_error": "expected one of {expected}",
    "string_pattern_mismatch": "expected {description}",
    "model_type": "expected a section with fields",
    "dict_type": "expected a section with fields",
}


def validated(model: type[M], values: dict[str, Any], name_of: Callable[[str], str] = str) -> M:
    """Return a validated model. Raise ConfigError with a line for each wrong field.

    A field is named by name_of(dotted path).
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = [problem_line(model, problem, name_of) for problem in error.errors()]
        more = [f"(and {len(lines) - PROBLEMS_SHOWN} more)"] if len(lines) > PROBLEMS_SHOWN else []
        raise ConfigError("\n".join(lines[:PROBLEMS_SHOWN] + more)) from None


def problem_line(model: type[BaseModel], problem: Any, name_of: Callable[[str], str]) -> str:
    """Return a text such as `--port: expected at most 65,535; got '70000'`.

    Secrets and whole sections are not shown.
    """
    path = [str(part) for part in problem["loc"]]
    field = field_at(model, path)
    described = (field.description if field else None) or f"text that matches {problem.get('ctx', {}).get('pattern')}"
    expected = MESSAGES.get(problem["type"], "{message}").format(
        **problem.get("ctx", {}),
        message=problem["msg"].removeprefix("Value error, "),
        description=described[0].lower() + described[1:].removesuffix("."),
    )
    name = name_of(".".join(path))
    if field is not None and "SecretStr" in str(field.annotation) or isinstance(problem["input"], dict | BaseModel):
        return f"{name}: {expected}" if name else expected
    got = f"; got {redacted(repr(problem['input'])):.60}"
    return f"{name}: {expected}{got}" if name else f"{expected}{got}"


def field_at(model: type[BaseModel], path: list[str]) -> FieldInfo | None:
    """Return the field at a path through sections.

    Return None if there is no field at the path, for instance for an item of a list.
    """
    field = None
    for name in path:
        section: Any = model if field is None else field.annotation
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            return field
        field = section.model_fields.get(name)
        if field is None:
            return None
    return field


def bounds_text(field: FieldInfo) -> str:
    """Return the field's bounds as text, such as `0 to 65,535`, `at least 1` or `above 0`, or "" if it has none."""
    bounds = {name: getattr(bound, name) for bound in field.metadata for name in BOUNDS if hasattr(bound, name)}
    least, above, most, below = (bounds.get(name) for name in BOUNDS)
    # The limit of the integer type is not shown as a bound.
    below = None if below is not None and below >= 2**31 else below
    if least is not None and most is not None:
        return f"{least:,} to {most:,}"
    lower = f"at least {least:,}" if least else f"above {above:,}" if above is not None else ""
    upper = f"at most {most:,}" if most is not None else f"below {below:,}" if below is not None else ""
    return ", ".join(filter(None, [lower, upper]))


BOUNDS = ("ge", "gt", "le", "lt")
