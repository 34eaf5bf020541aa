"""The contest of the registry's tests, for backups and pruning of a real home."""

from tests.rnnlm.registry.conftest import contest, contest_template, decided_template

__all__ = ["contest", "contest_template", "decided_template"]
