"""Importing this registers the model with transformers: the one import of ours that does something."""

from rnnlm.models.hugging_face import ElmanConfig, ElmanForCausalLM

__all__ = ["ElmanConfig", "ElmanForCausalLM"]
