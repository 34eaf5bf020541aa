"""The model as a citizen of the Hugging Face ecosystem: saved as safetensors, found by AutoModelForCausalLM."""

import sys
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

from rnnlm.errors import ModelError
from rnnlm.models.elman import Backend, ElmanLanguageModel, Nonlinearity


class ElmanConfig(PretrainedConfig):
    model_type = "rnnlm-elman"
    keys_to_ignore_at_inference = ["state"]  # no prediction: Trainer would gather it beside the logits

    def __init__(
        self,
        vocab_size: int = 16,
        hidden_size: int = 16,
        embedding_size: int | None = None,
        num_hidden_layers: int = 1,
        nonlinearity: Nonlinearity = "tanh",
        backend: Backend = "fused",
        diagonal: bool = False,  # U is a vector, its diagonal
        residual: bool = False,  # layers above the lowest read what is below normalised, and add to it
        tie_word_embeddings: bool = False,
        one_hot: bool = False,  # the embedding is the identity, and nothing that learns changes it
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
        self.diagonal = diagonal
        self.residual = residual
        self.one_hot = one_hot
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


def refuse_plain_harness() -> None:
    """ModelError if lm_eval's own model class is among the callers.

    It puts `<bos>` before a text that begins with one, and has the model predict the second. Told not to, it leaves
    line ends, unknown words and white space out of its figures. Nothing that it passes to a model tells it apart from
    other callers, so the stack must.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") == "lm_eval.models.huggingface":
            raise ModelError(
                "lm_eval --model hf: its figures of this model would be wrong, as line ends, unknown words and <bos>\n"
                "are not counted as the model was trained. Use `rnnlm lm-eval MODEL --tasks … --file …`."
            )


class ElmanForCausalLM(PreTrainedModel, GenerationMixin):
    """ElmanLanguageModel with the arguments and the output that transformers expects.

    The recurrent state is called `state` on both sides: that name is what makes generate() carry it. Gradient
    checkpointing is not supported: transformers says so where it is asked for.
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
            diagonal=config.diagonal,
            residual=config.residual,
            pad_id=config.pad_token_id,
            bos_id=config.bos_token_id,
        )
        self.hold_one_hot()
        self.post_init()

    def hold_one_hot(self) -> None:
        if self.config.one_hot:
            self.language_model.embedding.weight.requires_grad_(False)

    @classmethod
    def from_pretrained(cls, *arguments: Any, **settings: Any) -> Any:
        """As in transformers, from safetensors alone: a pickle is refused, for loading one may run any code.

        ModelError in the `hf` model of EleutherAI's harness, whose figures would be wrong.
        """
        refuse_plain_harness()
        loaded = super().from_pretrained(*arguments, **settings | {"use_safetensors": True})
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.hold_one_hot()  # the weights that were read have taken the place of those held before
        return loaded

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

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.language_model.head = new_embeddings  # type: ignore[assignment]

    @torch.no_grad()
    def resize_token_embeddings(self, *arguments: Any, **settings: Any) -> Any:
        """As in transformers. New tokens begin with the mean bias: with 0 beside log frequencies they would be all
        that is ever generated, and that is what transformers gives them where weights are tied.
        """
        before = self.language_model.head.bias.clone()
        embedding = super().resize_token_embeddings(*arguments, **settings)
        self.language_model.head.bias[len(before) :] = before.mean()
        self._init_weights(self.language_model)  # what is never predicted, at its new length
        return embedding

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        state: Tensor | None = None,
        labels: Tensor | None = None,
        shift_labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        logits_to_keep: int = 0,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> ElmanOutput:
        """input_ids: (b, t) → logits (b, t, V) and the state after the last token.

        attention_mask: (b, t) or longer at the left (generate() passes the whole history); the state is
        held where it is 0. labels are shifted here; shift_labels, as our datasets store them, are not.
        num_items_in_batch: what the summed loss is divided by; None: the number of targets here. Trainer counts them
        over all batches that it accumulates.
        logits_to_keep: of that many last tokens; 0: of all.
        """
        assert input_ids is not None, "an Elman network reads input_ids"
        mask = None if attention_mask is None else attention_mask[:, -input_ids.shape[1] :]
        hidden, last = self.language_model.hidden(input_ids, state, mask)
        logits = self.language_model.logits(hidden[:, -logits_to_keep:])
        loss = None
        if shift_labels is None and labels is not None:
            shift_labels = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]  # transformers' own shift
        if shift_labels is not None:
            # ignore <pad> (our padding) as well as -100 (that of transformers)
            targets = shift_labels.masked_fill(shift_labels == self.config.pad_token_id, -100).flatten()
            reduction = "mean" if num_items_in_batch is None else "sum"
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets, reduction=reduction)
            if num_items_in_batch is not None:
                loss = loss / num_items_in_batch
        return ElmanOutput(loss=loss, logits=logits, state=None if use_cache is False else last)

    def prepare_inputs_for_generation(  # type: ignore[override]
        self,
        input_ids: Tensor,
        state: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_cache: bool | None = True,
        logits_to_keep: int = 0,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """With a state only the last token is read: the prefix is in the state already."""
        carried = state if use_cache else None
        return {
            "input_ids": input_ids if carried is None else input_ids[:, -1:],
            "state": carried,
            "attention_mask": attention_mask,
            "use_cache": use_cache,
            "logits_to_keep": logits_to_keep,
        }

    def _update_model_kwargs_for_generation(
        self, outputs: ModelOutput, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        model_kwargs = super()._update_model_kwargs_for_generation(outputs, model_kwargs, *args, **kwargs)
        if outputs.get("state") is None:
            # Without a cache each step reads all tokens from the beginning, and beam search has nothing to reorder.
            model_kwargs.pop("state", None)
        return model_kwargs

    def _reorder_cache(self, state: Tensor, beam_idx: Tensor) -> Tensor:
        """Each beam goes on from the state of the beam it came from."""
        return state.index_select(0, beam_idx)


AutoConfig.register(ElmanConfig.model_type, ElmanConfig, exist_ok=True)
AutoModelForCausalLM.register(ElmanConfig, ElmanForCausalLM, exist_ok=True)
