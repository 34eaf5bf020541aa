"""The language model: an embedding, a stack of layers of one kind, and a head.

The module is copied into every bundle, so it imports only torch. Shapes: batch b, time t, layers L, hidden size H,
state size S, embedding size E, vocabulary V.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config.kinds import Kind, cell_class, kind_of
from .block import Block
from .cell import Cell
from .mixture import CountMixture
from .saved_config import check_config
from .stack import Stack

# The prefix of all names in model.safetensors. In the model's class for transformers, the language model is the
# attribute of this name.
SAVED_PREFIX = "language_model."


def make_cell(config: Mapping[str, Any], input_size: int, layer: int) -> Cell:
    """Return a layer of the model's kind. If an old configuration has no kind, return an Elman layer."""
    kind = kind_of(config.get("kind", "elman"))
    settings = {name: layer if name == "layer" else config[name] for name in kind.settings}
    return layer_class(kind)(input_size, config["hidden_size"], **settings)


def layer_class(kind: Kind) -> type[Any]:
    """Return the class of the kind's layers.

    Raise ValueError if the class is not a Cell, because the configuration in a folder may name any class.
    """
    found = cell_class(kind)
    if not (isinstance(found, type) and issubclass(found, Cell)):
        raise ValueError(f"{kind.name} is not a Cell (rnnlm/models/cell.py)")
    return found


def make_stack(config: Mapping[str, Any]) -> Stack:
    layers, hidden_size = config["num_hidden_layers"], config["hidden_size"]
    sizes = [config["embedding_size"]] + [hidden_size] * (layers - 1)
    cells = [make_cell(config, size, layer) for layer, size in enumerate(sizes)]
    # Models that were saved by version 0.3 have no branch_scale in their configurations.
    branch_scale = config.get("branch_scale", 1.0)
    return Stack(cells, config["backend"], config["residual"], branch_scale, isinstance(cells[0], Block))


class LanguageModel(nn.Module):
    """A language model that consists of an embedding, a stack and a linear head.

    It returns logits; the softmax is computed by the loss or during sampling. With tied embeddings the head uses the
    matrix of the embedding, (V, E). If E is not H, the outputs of the top layer are mapped to E by the readout, which
    is a projection without a bias.

    The embedding of `<pad>` is always zero. `<pad>` and `<bos>` are never predicted. Their logits are -inf, so their
    probability is 0 and their rows in the head get no gradient.
    """

    never_predicted: Tensor
    # The n-gram model that is mixed in when text is scored or generated. forward() and hidden() ignore it.
    mixture: CountMixture | None = None

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Create the network with random weights.

        `config` is the content of config.json as returned by model_factory.architecture(), whose keys are those of
        Hugging Face. Raise ValueError if it is invalid.
        """
        super().__init__()
        check_config(config)
        self.config = config
        self.pad_id = config["pad_token_id"]
        self.build(config)

    def build(self, config: Mapping[str, Any]) -> None:
        """Create the embedding, the stack and the head."""
        vocabulary_size, embedding_size, hidden_size = (
            config[name] for name in ("vocab_size", "embedding_size", "hidden_size")
        )
        self.embedding = nn.Embedding(vocabulary_size, embedding_size, padding_idx=self.pad_id)
        self.embedding.weight.requires_grad_(not config["one_hot"])
        self.stack = make_stack(config)
        has_readout = config["tie_word_embeddings"] and embedding_size != hidden_size
        self.readout = nn.Linear(hidden_size, embedding_size, bias=False) if has_readout else nn.Identity()
        self.head = nn.Linear(embedding_size if has_readout else hidden_size, vocabulary_size)
        if config["tie_word_embeddings"]:
            self.head.weight = self.embedding.weight
        never = torch.zeros(vocabulary_size, dtype=torch.bool)
        never[[self.pad_id, config["bos_token_id"]]] = True
        self.register_buffer("never_predicted", never, persistent=False)

    @property
    def networks(self) -> "Sequence[LanguageModel]":
        """The networks whose probabilities are averaged. Only an ensemble (ensemble.py) has more than one."""
        return [self]

    def logits_of_networks(self, logits: Iterable[Tensor]) -> Tensor:
        """Return the model's logits, (…, V), given the logits of each of its networks, (…, V)."""
        (own,) = logits
        return own

    def nll_of_networks(self, nll_nats: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """Return the model's losses of some tokens in nats, (tokens,), given each network's losses of these tokens."""
        (own,) = nll_nats
        return own

    def saved_weights(self) -> dict[str, Tensor]:
        """Return the content of model.safetensors. Tied weights are saved once."""
        tied = self.head.weight is self.embedding.weight
        weights = {name: tensor for name, tensor in self.state_dict().items() if not (tied and name == "head.weight")}
        return {SAVED_PREFIX + name: tensor.contiguous() for name, tensor in weights.items()}

    def load_saved_weights(self, saved: Mapping[str, Tensor]) -> None:
        """Load the content of a model.safetensors.

        If weights are missing or have the wrong shape, raise a RuntimeError that names them.
        """
        weights = {name.removeprefix(SAVED_PREFIX): tensor for name, tensor in saved.items()}
        if self.head.weight is self.embedding.weight and "embedding.weight" in weights:
            weights["head.weight"] = weights["embedding.weight"]
        self.load_state_dict(weights)

    def forward(
        self, token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits (b, t, V) and the state after the last token (b, L, S).

        `token_ids` has shape (b, t) and type int64.
        """
        hidden, state = self.hidden(token_ids, state, mask)
        return self.logits(hidden), state

    def hidden(
        self, token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the input of the head (b, t, H or E) and the state after the last token (b, L, S).

        `token_ids` has shape (b, t) and type int64. After training steps in bfloat16 on a GPU, the input of the head
        may be bfloat16.
        """
        outputs, last = self.stack(self.embedding(token_ids), state, mask)
        return self.head_input(outputs), last

    def head_input(self, outputs: Tensor) -> Tensor:
        """Return the head's input, (…, H or E), given the outputs of the top layer, (…, H).

        The outputs are projected by the readout if there is one.
        """
        if isinstance(self.readout, nn.Linear):
            return self.readout(outputs.to(self.readout.weight.dtype))
        return outputs

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits, (…, V), given the head's input, (…, H or E), which hidden() returned."""
        return nn.functional.linear(hidden, self.head.weight, self.head_bias())

    @property
    def context_length(self) -> int:
        """The number of preceding tokens that the n-gram model reads, or 0 without an n-gram model."""
        return 0 if self.mixture is None else self.mixture.context_length

    def mixed_logits(self, hidden: Tensor, contexts: Sequence[Sequence[int]]) -> Tensor:
        """Return the log-probabilities of the mixture with the n-gram model, or logits() if there is no n-gram model.

        Args:
            hidden: The head's input at n positions, (n, H or E), which hidden() returned.
            contexts: The last context_length tokens read at each position, the newest one first; see histories().
        """
        logits = self.logits(hidden)
        return logits if self.mixture is None else self.mixture.log_probabilities(logits, contexts)

    def head_bias(self) -> Tensor:
        """Return the head's bias, (V,), which is -inf for `<pad>` and `<bos>`."""
        return self.head.bias.masked_fill(self.never_predicted, float("-inf"))
