"""Fixtures for backup and prune: a registry with a trained model and with noisy copies of it."""

from tests.rnnlm.registry.conftest import contest, contest_template, decided_template

__all__ = ["contest", "contest_template", "decided_template"]
