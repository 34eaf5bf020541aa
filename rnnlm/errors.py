"""The exceptions of rnnlm. Each message says what was expected, what was found, where, and what to do."""

import difflib
from collections.abc import Iterable


class RnnlmError(Exception):
    """An error that the user can fix.

    Commands print its message, of at most three lines, and exit with a non-zero code.
    """


class ConfigError(RnnlmError):
    """An unknown preset, section or field, or a value of the wrong type or out of bounds."""


class CorpusError(RnnlmError):
    """A corpus is missing, empty, wrongly encoded, or lacks a split."""


class FetchError(CorpusError):
    """A download failed although the request was valid.

    Among the errors about a corpus, only this one may disappear on a retry.
    """


class DatasetError(RnnlmError):
    """A dataset fails a check in sql/checks, or does not fit the model."""


class EngineError(RnnlmError):
    """A process or a cluster that did a part of the work has failed."""


class HomeError(RnnlmError):
    """RNNLM_HOME is not writable, not readable or full."""


class ModelError(RnnlmError):
    """A model, run or registered version does not exist or cannot be loaded."""


class TextError(RnnlmError):
    """A text is not a string, or contains nothing to predict where a score is required."""


class ExtraError(RnnlmError):
    """A command needs packages of an optional extra."""


class DeviceError(RnnlmError):
    """The configured device is not available on this machine."""


class TrainingError(RnnlmError):
    """Training cannot continue, for example because the loss is NaN."""


class TrackingError(Exception):
    """MLflow is unavailable or returned an error. A later attempt may succeed."""


def is_worth_a_retry(error: BaseException) -> bool:
    """Return False for errors that only the user can fix, such as wrong settings, a full disk or a time limit."""
    return isinstance(error, FetchError) or not isinstance(error, RnnlmError)


def close_to(name: str, names: Iterable[str]) -> str:
    """Return a text such as `; did you mean NAME?`, or "" if no name is similar."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""
