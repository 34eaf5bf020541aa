"""Choose the size of each kind of model so that all have the same number of parameters."""

from rnnlm.config import ModelConfig, ModelKind
from rnnlm.errors import ConfigError
from rnnlm.models.parameter_count import count_parameters

TOLERANCE = 0.02  # relative
LARGEST_SIZE = 16_384  # units


def match_parameters(config: ModelConfig, kind: ModelKind, vocabulary_size: int, budget: int) -> ModelConfig:
    """The configuration with another kind, and the hidden_size whose number of parameters is nearest to the budget.

    Settings that only an Elman network has are left out for other kinds. ConfigError if no size is within TOLERANCE.
    """
    step = 2 * config.heads if kind in ("transformer", "xlstm") else 1  # heads divide the units, rotations pair them

    def sized(steps: int) -> ModelConfig:
        return config.of_kind(kind, hidden_size=steps * step)

    def count(steps: int) -> int:
        return count_parameters(sized(steps), vocabulary_size).total

    low, high = 1, LARGEST_SIZE // step
    while low < high:  # the largest size within the budget
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(middle) <= budget else (low, middle - 1)
    best = min((low, low + 1), key=lambda steps: abs(count(steps) - budget))
    found = count(best)
    if abs(found - budget) > TOLERANCE * budget:
        raise ConfigError(
            f"{kind}: no hidden_size gives {budget:,} parameters within {TOLERANCE:.0%}; the nearest, "
            f"{best * step}, gives {found:,}.\nChange --budget, model.heads or the size of the vocabulary."
        )
    return sized(best)
