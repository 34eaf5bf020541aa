"""The choice of a network's size and of the length of its training for a given number of minutes (`--minutes`).

docs/explanation/minutes.md explains the rule and the experiments behind it.
"""

import functools
import logging
import math
from collections.abc import Callable, Sequence

from rnnlm.config import DEFAULT_UNITS, SIZE_SETTINGS, PipelineConfig, Precision, TrainingConfig, result_settings
from rnnlm.config.kinds import kind_of
from rnnlm.config.moved_settings import flatten
from rnnlm.models.devices import choose_device, multiplies_bfloat16
from rnnlm.models.parameter_count import ParameterCount, count_parameters
from rnnlm.storage.home import Home, digest_of
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import DatasetRecord, Record
from rnnlm.training.pace import TRAINING_SHARE, memorable_parameters, most_epochs
from rnnlm.training.training_speed import remembered_speed

logger = logging.getLogger(__name__)
UNITS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
MOST_PARAMETERS = 25  # The largest number of parameters of a network for each token of the text.


class Size(Record):
    """The size and settings of a network that were chosen for a number of minutes.

    They replace only settings that are null in the configuration.
    """

    hidden_size: int
    epochs: int
    maximum_tokens: int
    # The expected minutes of training. They are below the given minutes if further epochs would only overfit.
    minutes: float
    precision: Precision
    dropout: float
    learning_rate: float

    def fill_in(self, config: PipelineConfig) -> PipelineConfig:
        training = config.training
        dropout = {name: self.dropout for name in ("inputs", "outputs") if getattr(training.dropout, name) is None}
        rate = {} if training.optimizer.learning_rate else {"learning_rate": self.learning_rate}
        changes = {
            "epochs": self.epochs,
            "maximum_tokens": self.maximum_tokens,
            "precision": training.precision or self.precision,
            "dropout": training.dropout.model_copy(update=dropout),
            "optimizer": training.optimizer.model_copy(update=rate),
        }
        model = config.model.model_copy(update={"hidden_size": config.model.hidden_size or self.hidden_size})
        return config.model_copy(update={"model": model, "training": training.model_copy(update=changes)})


def fit_to_minutes(home: Home, config: PipelineConfig, dataset: DatasetRecord) -> PipelineConfig:
    """Return the configuration with a size and a length of training that suit its minutes.

    Without minutes, the default size and length are used. The choice is stored for this dataset and these settings.
    Hence a run that was killed, and a later run on the same text, have the same size and length, even if the machine
    has become faster or slower.
    """
    config = with_loss_of_device(config)
    minutes = config.training.minutes
    if minutes is None or not is_open(config):
        model = config.model.model_copy(update={"hidden_size": config.model.units})
        changes: dict[str, object] = {"precision": precision_without_minutes(config.training)}
        if config.training.maximum_tokens is not None:
            # The minutes are removed, because the number of tokens would otherwise seem to be chosen for them.
            changes["minutes"] = None
        training = config.training.model_copy(update=changes)
        return config.model_copy(update={"model": model, "training": training.resolved()})
    settings = flatten(config.model_dump(mode="json"))
    # The key contains the paths of null settings, because result_settings() replaces null by the defaults.
    left_open = [path for path in SIZE_SETTINGS if settings[path] is None]
    facts = [dataset.dataset_id, result_settings(config.model), result_settings(config.training)]
    key = digest_of([*facts, minutes, left_open])

    def choose() -> dict[str, object]:
        size = choose_size(config, dataset, lambda one: remembered_speed(home, one, dataset))
        # The dataset_id is stored so that `rnnlm prune` keeps the file for as long as the dataset.
        return {"dataset_id": dataset.dataset_id, "size": size.model_dump()}

    home.make(home.starts)
    stored, _ = write_json_once(home, home.starts / f"size-{key[:16]}.json", key, choose)
    size = Size(**stored["size"])
    logger.info(
        "training: %g minutes suffice for a network of %d units to read %s tokens (%.1f epochs)%s;\n"
        "dropout %g, learning rate %.2g, %s",
        minutes,
        size.hidden_size,
        f"{size.maximum_tokens:,}",
        size.maximum_tokens / dataset.predicted_tokens["train"],
        ""
        if size.minutes > 0.9 * minutes
        else f", which takes {size.minutes:.1f} minutes, because more epochs would overfit",
        size.dropout,
        size.learning_rate,
        size.precision,
    )
    return size.fill_in(config)


def with_loss_of_device(config: PipelineConfig) -> PipelineConfig:
    """Return the configuration with a loss that suits its device, unless a loss is configured.

    On a GPU the exact loss is chosen, because computing all logits takes less time there than sampling some.
    """
    loss = config.training.loss
    on_gpu = loss.kind is None and choose_device(config.training.device).type == "cuda"
    chosen = loss.model_copy(update={"kind": "exact"}) if on_gpu else loss.resolved()
    return config.model_copy(update={"training": config.training.model_copy(update={"loss": chosen})})


def is_open(config: PipelineConfig) -> bool:
    """Return True if the size of the network and the length of its training are chosen for the minutes.

    They are not chosen if the length is given by epochs or tokens, or if the model is an n-gram model without a
    network. They are also not chosen if training starts from another model: the network then has that model's size, and
    a warm start has its own learning rate and length.
    """
    training = config.training
    is_given = training.epochs is not None or training.maximum_tokens is not None
    is_new_network = config.model.has_network and training.start_from == "nothing"
    return training.minutes is not None and not is_given and is_new_network


def choose_size(config: PipelineConfig, dataset: DatasetRecord, speed_of: Callable[[PipelineConfig], float]) -> Size:
    """Return the largest network that can read enough tokens in the minutes, with its training settings.

    `speed_of` returns the training speed of a configuration in tokens per second.
    """
    training, text_tokens = config.training, dataset.predicted_tokens["train"]
    assert training.minutes is not None
    seconds = TRAINING_SHARE * 60 * training.minutes

    @functools.cache
    def tokens_in_time(units: int) -> float:
        return seconds * speed_of(with_units(config, units))

    def parameters(units: int) -> ParameterCount:
        return count_parameters(with_units(config, units).model, dataset.vocabulary_size)

    def fits(units: int) -> bool:
        enough = enough_tokens(tokens_in_time(DEFAULT_UNITS), text_tokens)
        return parameters(units).total <= MOST_PARAMETERS * text_tokens and tokens_in_time(units) >= enough

    # The number of units must be divisible by the number of heads.
    step = kind_of(config.model.kind).units_per_head * config.model.heads or 1
    sizes = tuple(size for size in UNITS if size % step == 0)
    units = config.model.hidden_size or largest(sizes, sizes.index(DEFAULT_UNITS), fits)
    epochs = min(tokens_in_time(units) / text_tokens, most_epochs(parameters(units), text_tokens))
    tokens = epochs * text_tokens
    return Size(
        hidden_size=units,
        epochs=math.ceil(epochs),
        maximum_tokens=max(1, int(tokens)),
        minutes=training.minutes * tokens / tokens_in_time(units),
        precision=precision_of(training),
        dropout=dropout_for(memorable_parameters(parameters(units)) * epochs / text_tokens),
        learning_rate=training.optimizer.peak_rate(config.model.kind, units),
    )


def enough_tokens(in_time: float, text_tokens: int) -> float:
    """Return the number of tokens that a network must read within the minutes. A network that reads fewer is too large.

    `in_time` is the number of tokens that a network of DEFAULT_UNITS units reads in the minutes. The result is
    proportional to √in_time, so that more minutes permit a larger network (Hoffmann et al. 2022). It is somewhat larger
    for a longer text.
    """
    return math.sqrt(3e6 * in_time) * (min(text_tokens, 10_000_000) / 1e6) ** 0.2


def largest(values: Sequence[int], start: int, fits: Callable[[int], bool]) -> int:
    """Return the largest of the ascending `values` for which `fits` is true, or the first value if there is none.

    The search begins at values[start] and makes few calls of `fits`, which takes time.
    """
    place = start
    while place + 1 < len(values) and fits(values[place]) and fits(values[place + 1]):
        place += 1
    while place > 0 and not fits(values[place]):
        place -= 1
    return values[place]


def dropout_for(readings: float) -> float:
    """Return the dropout rate, which grows with `readings`.

    `readings` is memorable parameters · epochs / tokens of the text.
    """
    return round(min(0.5, max(0.0, 0.087 * math.log2(readings) - 0.17)), 2)


def with_units(config: PipelineConfig, units: int) -> PipelineConfig:
    """Return the configuration with `units` units, for measuring the speed of training."""
    model = config.model.model_copy(update={"hidden_size": units})
    training = config.training.model_copy(update={"precision": precision_of(config.training)})
    return config.model_copy(update={"model": model, "training": training})


def precision_of(training: TrainingConfig) -> Precision:
    """Return bfloat16 if the device multiplies such numbers in hardware, which is faster, otherwise float32."""
    if training.precision is not None:
        return training.precision
    return "bfloat16" if multiplies_bfloat16(choose_device(training.device)) else "float32"


def precision_without_minutes(training: TrainingConfig) -> Precision:
    """Return bfloat16 on a GPU that supports it, otherwise the configured precision.

    On a CPU the default is float32, so that a given length of training has the same result on every CPU.
    """
    on_gpu = training.precision is None and choose_device(training.device).type == "cuda"
    return precision_of(training) if on_gpu else training.product_precision
