"""The few exceptions a caller may want to tell apart. Each message: expected, got, where, what to do."""


class RnnlmError(Exception):
    """A mistake the user can mend. Commands print its (at most three) lines and end with a non-zero code."""


class ConfigError(RnnlmError):
    """A preset, section, field or value that is unknown, of the wrong type or out of bounds."""


class CorpusError(RnnlmError):
    """A corpus that is missing, empty, wrongly encoded, or lacks a split."""


class FetchError(CorpusError):
    """A download that failed although the request was right: the one corpus error worth a retry."""


class DatasetError(RnnlmError):
    """A dataset that breaks a check in sql/checks, or does not fit the model."""


class HomeError(RnnlmError):
    """RNNLM_HOME cannot be written to."""


class ModelError(RnnlmError):
    """A model, run or registered version that does not exist or cannot be loaded."""


class ExtraError(RnnlmError):
    """A command needs packages of an optional extra that are not installed."""


class DeviceError(RnnlmError):
    """A device that was named but is not present on this machine."""


class TrainingError(RnnlmError):
    """Training cannot go on: the loss is not a number, say."""


class TrackingError(Exception):
    """MLflow could not be reached or answered with an error: the world's failure, worth a retry."""
