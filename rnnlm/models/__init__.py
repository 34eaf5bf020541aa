"""Importing this package registers the model with transformers."""

from rnnlm.models.hugging_face import ElmanConfig, ElmanForCausalLM

__all__ = ["ElmanConfig", "ElmanForCausalLM"]
