"""The model as a citizen of the Hugging Face ecosystem: saved as safetensors, found by AutoModelForCausalLM."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.utils import ModelOutput

from rnnlm.models.elman import Backend, ElmanLanguageModel, Nonlinearity


class ElmanConfig(PretrainedConfig):
    model_type = "rnnlm-elman"

    def __init__(
        self,
        vocab_size: int = 16,
        hidden_size: int = 16,
        embedding_size: int | None = None,
        num_hidden_layers: int = 1,
        nonlinearity: Nonlinearity = "tanh",
        backend: Backend = "fused",
        tie_word_embeddings: bool = False,
        pad_token_id: int = 0,
        bos_token_id: int = 2,
        eos_token_id: int = 3,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.embedding_size = embedding_size or hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.nonlinearity = nonlinearity
        self.backend = backend
        super().__init__(  # type: ignore[call-arg]
            tie_word_embeddings=tie_word_embeddings,
            pad_token_id=pad_token_id,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            **kwargs,
        )


@dataclass
class ElmanOutput(ModelOutput):
    """loss: scalar or None; logits: (b, t, V); state: (b, L, H), or None where use_cache is False."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    state: Tensor | None = None


class ElmanForCausalLM(PreTrainedModel, GenerationMixin):
    """ElmanLanguageModel with the arguments and the output that transformers expects.

    The recurrent state is called `state` on both sides: that name is what makes generate() carry it.
    """

    config_class = ElmanConfig
    _is_stateful = True
    _no_split_modules = ["ElmanLanguageModel"]
    _tied_weights_keys = {"language_model.head.weight": "language_model.embedding.weight"}

    def __init__(self, config: ElmanConfig) -> None:
        super().__init__(config)
        self.language_model = ElmanLanguageModel(
            vocabulary_size=config.vocab_size,
            hidden_size=config.hidden_size,
            embedding_size=config.embedding_size,
            layers=config.num_hidden_layers,
            nonlinearity=config.nonlinearity,
            tie_embeddings=config.tie_word_embeddings,
            backend=config.backend,
            pad_id=config.pad_token_id,
            bos_id=config.bos_token_id,
        )
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the whole past is one state, not keys and values

    def _init_weights(self, module: nn.Module) -> None:
        """Weights are filled by rnnlm.models.initialization or from a file; the one buffer is rebuilt here."""
        if isinstance(module, ElmanLanguageModel):
            never = torch.zeros(self.config.vocab_size, dtype=torch.bool)
            never[[self.config.pad_token_id, self.config.bos_token_id]] = True
            module.never_predicted = never.to(module.never_predicted.device)

    def get_input_embeddings(self) -> nn.Module:
        return self.language_model.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.language_model.embedding = value  # type: ignore[assignment]

    def get_output_embeddings(self) -> nn.Module:
        return self.language_model.head

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        state: Tensor | None = None,
        labels: Tensor | None = None,
        shift_labels: Tensor | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> ElmanOutput:
        """input_ids: (b, t) → logits (b, t, V) and the state after the last token.

        attention_mask: (b, t) or longer at the left (generate() passes the whole history); the state is
        held where it is 0. labels are shifted here; shift_labels, as our datasets store them, are not.
        """
        assert input_ids is not None, "an Elman network reads input_ids"
        mask = None if attention_mask is None else attention_mask[:, -input_ids.shape[1] :]
        logits, last = self.language_model(input_ids, state, mask)
        loss = None
        if shift_labels is None and labels is not None:
            shift_labels = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
        if shift_labels is not None:
            # ignore <pad> (our padding) as well as -100 (that of transformers)
            targets = shift_labels.masked_fill(shift_labels == self.config.pad_token_id, -100)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100)
        return ElmanOutput(loss=loss, logits=logits, state=None if use_cache is False else last)

    def prepare_inputs_for_generation(  # type: ignore[override]
        self,
        input_ids: Tensor,
        state: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """With a state only the last token is read: the prefix is in the state already."""
        use_cache = kwargs.get("use_cache", True)
        if state is not None and use_cache:
            input_ids = input_ids[:, -1:]
        return {
            "input_ids": input_ids,
            "state": state if use_cache else None,
            "attention_mask": attention_mask,
            "use_cache": use_cache,
        }

    def _update_model_kwargs_for_generation(
        self, outputs: ModelOutput, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        model_kwargs = super()._update_model_kwargs_for_generation(outputs, model_kwargs, *args, **kwargs)
        model_kwargs["state"] = outputs.get("state")
        return model_kwargs

    def _reorder_cache(self, state: Tensor, beam_idx: Tensor) -> Tensor:
        """Each beam goes on from the state of the beam it came from."""
        return state.index_select(0, beam_idx)


AutoConfig.register(ElmanConfig.model_type, ElmanConfig, exist_ok=True)
AutoModelForCausalLM.register(ElmanConfig, ElmanForCausalLM, exist_ok=True)
