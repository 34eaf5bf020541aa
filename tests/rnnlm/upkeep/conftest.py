"""The registry's contest: real models of one corpus, to prune, back up and restore."""

from tests.rnnlm.registry.conftest import contest, contest_template

__all__ = ["contest", "contest_template"]
