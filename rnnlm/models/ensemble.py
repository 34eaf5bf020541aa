"""Ensembles of several networks with the same vocabulary, whose probabilities are averaged.

The module is part of every bundle.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config.kinds import MEMBERS
from .language_model import LanguageModel

SHARES = "shares"  # The name of the tensor in model.safetensors with the members' weights.


class Ensemble(LanguageModel):
    """An ensemble that predicts p(w) = Σ share_i p_i(w), where the shares sum to 1.

    The values of `hidden` and `state` are the concatenated values of the members. The ensemble itself has no embedding,
    layers or head. Code that needs these must call load_network(), which returns a single network.
    """

    # The weights of the members, (members,). They are float32, because some devices do not support float64.
    shares: Tensor

    def build(self, config: Mapping[str, Any]) -> None:
        """Create the members.

        `config` is the content of config.json, whose "members" are the configurations of networks.
        """
        self.average([LanguageModel(member) for member in config[MEMBERS]])
        self.register_buffer(SHARES, torch.full((len(self.averaged),), 1 / len(self.averaged)))

    def average(self, networks: Sequence[LanguageModel]) -> None:
        """Set `networks` as the members of the ensemble."""
        self.averaged, self.members = list(networks), nn.ModuleList(networks)

    @property
    def networks(self) -> Sequence[LanguageModel]:
        return self.averaged

    @property
    def embedding(self) -> nn.Embedding:  # type: ignore[override]
        """The embedding of the first member, which shows the device of all members."""
        return self.networks[0].embedding

    def saved_weights(self) -> dict[str, Tensor]:
        weights = {SHARES: self.shares}
        for number, network in enumerate(self.networks):
            own = network.saved_weights()
            weights |= {f"{MEMBERS}.{number}.{name}": tensor for name, tensor in own.items()}
        return weights

    def load_saved_weights(self, saved: Mapping[str, Tensor]) -> None:
        self.shares.copy_(saved[SHARES])
        for number, network in enumerate(self.networks):
            prefix = f"{MEMBERS}.{number}."
            own = {name: tensor for name, tensor in saved.items() if name.startswith(prefix)}
            network.load_saved_weights({name.removeprefix(prefix): tensor for name, tensor in own.items()})

    def hidden(
        self, token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run all members on token_ids, (b, t) int64.

        Return the inputs of the heads, (b, t, ΣH or E), and the state after the last token, (b, 1, ΣL·S).
        """
        shapes = [network.stack.initial_state(1).shape[1:] for network in self.networks]
        states: Sequence[Tensor | None] = [None] * len(shapes)
        if state is not None:
            parts = state.flatten(1).split([shape.numel() for shape in shapes], dim=1)
            states = [part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=True)]
        both = [network.hidden(token_ids, one, mask) for network, one in zip(self.networks, states, strict=True)]
        return (
            torch.cat([hidden for hidden, _ in both], dim=-1),
            torch.cat([after.flatten(1) for _, after in both], dim=1).unsqueeze(1),
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logarithms of the mean probabilities, (…, V), for `hidden` of shape (…, ΣH or E)."""
        parts = hidden.split([network.head.in_features for network in self.networks], dim=-1)
        return self.logits_of_networks(network.logits(part) for network, part in zip(self.networks, parts, strict=True))

    def logits_of_networks(self, logits: Iterable[Tensor]) -> Tensor:
        """Return the natural logarithms of the mean probabilities, (…, V), given the logits of each member, (…, V).

        The probabilities are summed member by member. If `logits` is an iterator, only a few of its tensors are in
        memory at a time.
        """
        # The logits of these tokens are excluded, because they are -inf in all networks, where logaddexp has no
        # gradient.
        never = self.networks[0].never_predicted
        total: Tensor | None = None
        for one, share in zip(logits, self.shares.log(), strict=True):
            shared = one.log_softmax(dim=-1).masked_fill(never, 0.0) + share.to(one.dtype)
            total = shared if total is None else torch.logaddexp(total, shared)
        assert total is not None
        return total.masked_fill(never, float("-inf"))

    def nll_of_networks(self, nll_nats: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """Return the ensemble's losses of some tokens, (tokens,) float32, given the losses of each member."""
        with np.errstate(divide="ignore"):  # The logarithm of a share of 0 is -inf, without a warning.
            shares = np.log(self.shares.cpu().numpy().astype(np.float64))
        shared = -np.asarray(nll_nats, np.float64) + shares[:, None]
        nll: np.ndarray = -np.logaddexp.reduce(shared, axis=0).astype(np.float32)
        return nll


def make_network(config: Mapping[str, Any]) -> LanguageModel:
    """Return a network or an ensemble with untrained weights. The caller must load the weights.

    `config` is the content of config.json.
    """
    return Ensemble(config) if MEMBERS in config else LanguageModel(config)


def joined(networks: Sequence[LanguageModel], shares: np.ndarray) -> Ensemble:
    """Return an ensemble, without an n-gram model, of networks with the same vocabulary.

    `shares` has shape (networks,) and sums to 1.
    """
    first = networks[0].config
    ids = {name: first[name] for name in ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id")}
    members = [dict(network.config) for network in networks]
    ensemble = Ensemble({"model_type": "rnnlm-ensemble", "dtype": "float32", MEMBERS: members, **ids})
    ensemble.average(networks)
    ensemble.shares.copy_(torch.from_numpy(shares))
    return ensemble
