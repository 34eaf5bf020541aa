"""The model as a PreTrainedModel. After importing this module, AutoModelForCausalLM can load a model's folder.

Other modules of rnnlm do not import this one, because importing the model classes of transformers takes longer than
importing torch.
"""

import traceback
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

from rnnlm.config import Backend, Nonlinearity
from rnnlm.config.kinds import kind_of
from rnnlm.errors import ModelError
from rnnlm.models.language_model import LanguageModel


class RnnlmConfig(PretrainedConfig):
    model_type = "rnnlm"
    # Trainer does not gather the state, which evaluation does not need.
    keys_to_ignore_at_inference = ["state"]

    kind: str = "elman"
    vocab_size: int = 16
    hidden_size: int = 16
    embedding_size: int | None = None  # The number of components of the embedding, or None for hidden_size.
    num_hidden_layers: int = 1
    nonlinearity: Nonlinearity = "tanh"
    backend: Backend = "fused"
    diagonal: bool = False  # True if the recurrent matrix U is diagonal and stored as a vector.
    residual: bool = False  # True if there are pre-norm residual connections between layers.
    branch_scale: float = 1.0  # The factor by which the output of a residual layer is multiplied.
    tie_word_embeddings: bool = False
    one_hot: bool = False  # True if the embedding is the identity matrix and not trained.
    heads: int | None = None  # The number of heads of a Transformer or an xLSTM.
    attention_window: int | None = None  # The attention window of a Transformer, in tokens.
    pad_token_id: int = 0
    bos_token_id: int = 2
    eos_token_id: int = 3

    def __post_init__(self, **kwargs: Any) -> None:
        self.embedding_size = self.embedding_size or self.hidden_size
        super().__post_init__(**kwargs)


@dataclass
class RnnlmOutput(ModelOutput):
    """The model's output.

    loss is a scalar or None, logits have the shape (b, t, V), and state has the shape (b, L, S) or is None if use_cache
    is False.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    state: Tensor | None = None


def refuse_lm_eval_hf_model() -> None:
    """Raise ModelError if the `hf` model of lm_eval calls this function, because its scores would be wrong.

    The `hf` model either adds a second `<bos>` and scores it, or leaves out line ends, unknown words and white space.
    The call stack is inspected, because the arguments do not reveal the caller.
    """
    callers = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_stack(None)]
    if "lm_eval.models.huggingface" in callers:
        raise ModelError(
            "lm_eval --model hf: the scores of this model would be wrong, because lm_eval counts line ends, unknown\n"
            "words and <bos> differently; use `rnnlm lm-eval MODEL --tasks … --file …`"
        )


class RnnlmForCausalLM(PreTrainedModel, GenerationMixin):
    """The network of a model with the arguments and outputs that transformers expects, without the n-gram model.

    generate() passes the recurrent state to the next step, because an argument and an output are both named `state`.
    Gradient checkpointing is not supported, so transformers raises an error for it.
    """

    config_class = RnnlmConfig
    _is_stateful = True
    _no_split_modules = ["LanguageModel"]
    _tied_weights_keys = {"language_model.head.weight": "language_model.embedding.weight"}

    def __init__(self, config: RnnlmConfig) -> None:
        if not kind_of(config.kind).is_trained:
            raise ModelError(f"a model of kind {config.kind} has no network; use it through rnnlm or MLflow")
        super().__init__(config)
        self.language_model = LanguageModel(vars(config))
        self.post_init()

    @classmethod
    def from_language_model(cls, model: LanguageModel) -> "RnnlmForCausalLM":
        """Wrap a model without copying its weights."""
        wrapped = cls(RnnlmConfig(**model.config))
        wrapped.language_model = model
        return wrapped

    @classmethod
    def from_pretrained(cls, *arguments: Any, **settings: Any) -> Any:
        """Load a model as transformers does, but only from safetensors, because a pickle can run arbitrary code.

        Raise ModelError if the `hf` model of EleutherAI's lm_eval calls this method.
        """
        refuse_lm_eval_hf_model()
        loaded = super().from_pretrained(*arguments, **settings | {"use_safetensors": True})
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        # Loading has replaced the embedding's weights, so a one-hot embedding is excluded from training again.
        model.language_model.embedding.weight.requires_grad_(not model.config.one_hot)
        return loaded

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # The model carries a single state, and has no cache of keys and values.

    def _init_weights(self, module: nn.Module) -> None:
        """Create the buffer never_predicted. The weights come from rnnlm.models.initialization or from a file."""
        if isinstance(module, LanguageModel):
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
        """Resize the embedding as transformers does, but with the mean bias as the bias of new tokens.

        With tied weights, transformers would initialize this bias to 0. The other biases are log frequencies far below
        0, so only new tokens would be generated.
        """
        before = self.language_model.head.bias.clone()
        embedding = super().resize_token_embeddings(*arguments, **settings)
        self.language_model.head.bias[len(before) :] = before.mean()
        # The buffer never_predicted is created again with the new number of tokens.
        self._init_weights(self.language_model)
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
    ) -> RnnlmOutput:
        """Return the logits, (b, t, V), and the state after the last token.

        Args:
            input_ids: Token ids, (b, t).
            attention_mask: (b, t), or longer on the left, because generate() passes the whole history. Where it is 0,
                the state does not change.
            state: The state before the first token, (b, L, S). If None, it is zero.
            labels: Target tokens, which are shifted here.
            shift_labels: Target tokens that are already shifted, as datasets store them.
            num_items_in_batch: Divisor of the summed loss. If None, it is the number of targets. Trainer passes the
                number of targets in all batches that it accumulates.
            logits_to_keep: Number of last tokens whose logits are returned. 0 means all.
            use_cache: If False, no state is returned.
            return_dict: Ignored, as transformers may pass it.
            **kwargs: Ignored, as transformers may pass further arguments.
        """
        assert input_ids is not None, "the model reads input_ids"
        mask = None if attention_mask is None else attention_mask[:, -input_ids.shape[1] :]
        hidden, last = self.language_model.hidden(input_ids, state, mask)
        logits = self.language_model.logits(hidden[:, -logits_to_keep:])
        loss = None
        if shift_labels is None and labels is not None:
            # The labels are shifted in the same way as by transformers.
            shift_labels = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
        if shift_labels is not None:
            # The loss ignores <pad> and -100, which transformers uses for padding.
            targets = shift_labels.masked_fill(shift_labels == self.config.pad_token_id, -100).flatten()
            reduction = "mean" if num_items_in_batch is None else "sum"
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets, reduction=reduction)
            if num_items_in_batch is not None:
                loss = loss / num_items_in_batch
        return RnnlmOutput(loss=loss, logits=logits, state=None if use_cache is False else last)

    def prepare_inputs_for_generation(  # type: ignore[override]
        self,
        input_ids: Tensor,
        state: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_cache: bool | None = True,
        logits_to_keep: int = 0,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the inputs of the next step. If there is a state, only the last token is passed."""
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
            # Without a cache, each step reads all tokens again. The state is removed, so that beam search does not
            # reorder it.
            model_kwargs.pop("state", None)
        return model_kwargs

    def _reorder_cache(self, state: Tensor, beam_idx: Tensor) -> Tensor:
        """Return the states in the order of `beam_idx`.

        Each beam then continues from the state of the beam that it extends.
        """
        return state.index_select(0, beam_idx)


class ElmanConfig(RnnlmConfig):
    """The configuration of models that were saved when rnnlm had only Elman networks."""

    model_type = "rnnlm-elman"


class ElmanForCausalLM(RnnlmForCausalLM):
    config_class = ElmanConfig


for model_class in (RnnlmForCausalLM, ElmanForCausalLM):
    AutoConfig.register(model_class.config_class.model_type, model_class.config_class, exist_ok=True)
    AutoModelForCausalLM.register(model_class.config_class, model_class, exist_ok=True)
