"""The accuracy by position of a network that always predicts the next id agrees with a calculation by hand."""

import torch

from rnnlm.extensions.probes.run_probes import right_by_position
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Sampling, continue_ids
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.batches import Batch, ordered_batches
from rnnlm.sequences.segmentation import rows_from_lists
from tests.configs import new_model

VOCABULARY = 12


def successor() -> LanguageModel:
    """Return a model that predicts i + 1 after token i.

    The state is a unit vector for the current token, and the output layer shifts it by one.
    """
    model = new_model(VOCABULARY, VOCABULARY, nonlinearity="relu")
    with torch.no_grad():
        for matrix in (model.embedding.weight, model.stack.cells[0].W):
            matrix.copy_(torch.eye(VOCABULARY))
        model.stack.cells[0].U.zero_()
        model.head.weight.copy_(torch.eye(VOCABULARY).roll(1, dims=0))
        model.head.bias.zero_()
    return model


def batches(*lines: list[int]) -> list[Batch]:
    return list(ordered_batches(rows_from_lists([[2, *line, 3] for line in lines]), batch_size=2))


def test_exact_positions_are_those_of_a_greedy_continuation() -> None:
    model = new_model(VOCABULARY, 8)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
        model.head.bias[3] = -1e9  # The model never predicts <eos>.
    alone = continue_ids(InferenceWeights(model), [2, 5, 6], Sampling(maximum_tokens=6, temperature=0), eos_id=3)
    broken = [*alone[:4], 4 if alone[4] != 4 else 5, *alone[5:]]
    found = right_by_position(model, batches([5, 6, *alone], [5, 6, *broken]), given_tokens=2)
    assert found.exact == (None, None, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5)
