"""The process that forks trainers, for runs of several processes."""

from tests.rnnlm.training.conftest import trainer

__all__ = ["trainer"]
