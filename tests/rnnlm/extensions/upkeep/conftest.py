"""Fixtures for backup and prune: a trained model and noisy copies of it that compete in a registry."""

from tests.rnnlm.registry.conftest import contest, contest_template, decided_template

__all__ = ["contest", "contest_template", "decided_template"]
