"""Choose the size of each kind of model so that all have the same number of parameters."""

from rnnlm.config import ModelConfig, ModelKind
from rnnlm.errors import ConfigError
from rnnlm.models.parameter_count import count_parameters

TOLERANCE = 0.02  # relative
LARGEST_SIZE = 16_384  # units
HEADED: dict[ModelKind, int] = {"transformer": 2, "xlstm": 1}  # numbers of units per head must be a multiple of this


def match_parameters(config: ModelConfig, kind: ModelKind, vocabulary_size: int, budget: int) -> ModelConfig:
    """The configuration with another kind, and the hidden_size whose number of parameters is nearest to the budget.

    Settings that only an Elman network has are left out for other kinds. The heads of a Transformer and an xLSTM divide
    its units: if no size fits, it gets fewer heads. ConfigError if no size is within TOLERANCE.
    """
    heads = config.heads
    while True:
        nearest = nearest_size(config.of_kind(kind, hidden_size=2 * heads, heads=heads), vocabulary_size, budget)
        found = count_parameters(nearest, vocabulary_size).total
        if abs(found - budget) <= TOLERANCE * budget:
            return nearest
        if kind not in HEADED or heads == 1:
            raise ConfigError(
                f"{kind}: no hidden_size gives {budget:,} parameters within {TOLERANCE:.0%}; the nearest, "
                f"{nearest.hidden_size}, gives {found:,}.\nChange --budget or the size of the vocabulary."
            )
        heads = max(divisor for divisor in range(1, heads) if heads % divisor == 0)


def nearest_size(config: ModelConfig, vocabulary_size: int, budget: int) -> ModelConfig:
    """The configuration with the hidden_size that its kind takes and whose number of parameters is nearest."""
    step = config.heads * HEADED.get(config.kind, 0) or 1

    def sized(steps: int) -> ModelConfig:
        return config.model_copy(update={"hidden_size": steps * step})

    def count(steps: int) -> int:
        return count_parameters(sized(steps), vocabulary_size).total

    low, high = 1, LARGEST_SIZE // step
    while low < high:  # the largest size within the budget
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(middle) <= budget else (low, middle - 1)
    return sized(min((low, low + 1), key=lambda steps: abs(count(steps) - budget)))
