"""A fixture with the process that forks training processes, for runs of several processes."""

from tests.rnnlm.training.conftest import trainer

__all__ = ["trainer"]
