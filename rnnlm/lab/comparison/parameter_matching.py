"""Choose the size of each kind of model so that all have the same number of parameters."""

from rnnlm.config import ModelConfig, ModelKind
from rnnlm.errors import ConfigError
from rnnlm.models.kinds import kind_of
from rnnlm.models.parameter_count import count_parameters, nearest_size

PARAMETER_TOLERANCE = 0.02  # relative


def match_parameters(config: ModelConfig, kind: ModelKind, vocabulary_size: int, budget: int) -> ModelConfig:
    """The configuration with another kind, and the hidden_size whose number of parameters is nearest to the budget.

    Settings that only an Elman network has are left out for other kinds. The heads of a Transformer and an xLSTM divide
    its units: if no size fits, it gets fewer heads. ConfigError if no size is within PARAMETER_TOLERANCE.
    """
    heads, units_per_head = config.heads, kind_of(kind).units_per_head
    while True:
        step = heads * units_per_head if units_per_head else 1
        model = config.of_kind(kind, hidden_size=2 * heads, heads=heads)
        nearest = nearest_size(model, vocabulary_size, budget, step)
        found = count_parameters(nearest, vocabulary_size).total
        if abs(found - budget) <= PARAMETER_TOLERANCE * budget:
            return nearest
        if not units_per_head or heads == 1:
            raise ConfigError(
                f"{kind}: no hidden_size gives {budget:,} parameters within {PARAMETER_TOLERANCE:.0%}; the nearest, "
                f"{nearest.hidden_size}, gives {found:,}.\nChange --budget or the size of the vocabulary."
            )
        heads = max(divisor for divisor in range(1, heads) if heads % divisor == 0)
