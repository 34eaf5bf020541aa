"""The command-line options of `rnnlm evaluate` for test-time adaptation, and the measurement that they request."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rnnlm.config import CorpusConfig, Section
from rnnlm.config.bounds import NonNegativeFloat, Size
from rnnlm.config.validation import validated
from rnnlm.errors import ConfigError
from rnnlm.extensions.adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import Split

if TYPE_CHECKING:
    from rnnlm.extensions.adaptation.adaptation_table import Adaptations, AdaptationTable

DYNAMIC: dict[str, Any] = DynamicConfig.model_fields
CACHE: dict[str, Any] = CacheConfig.model_fields
# The settings of each adaptation that --tune selects.
TUNED = {"dynamic": ("rate", "decay"), "cache": ("size", "theta", "share")}


class AdaptationOptions(Section):
    """The options for adaptation, as an implementation of ModelVariants (evaluation/variants.py)."""

    dynamic: bool = Field(False, description="Let the model learn from each segment of the text after scoring it.")
    dynamic_rate: NonNegativeFloat = DYNAMIC["rate"]
    dynamic_decay: Annotated[float, Field(ge=0.0, le=1.0)] = DYNAMIC["decay"]
    dynamic_scaled: bool = DYNAMIC["scaled"]
    dynamic_segment: Size = DYNAMIC["segment_length"]
    cache: bool = Field(
        False,
        description="Mix the model's probabilities with a cache of the tokens that followed similar hidden states.",
    )
    cache_size: Size = CACHE["size"]
    cache_theta: NonNegativeFloat = CACHE["theta"]
    cache_share: Annotated[float, Field(ge=0.0, le=1.0)] = CACHE["share"]
    interpolate: Literal["kneser-ney"] | None = Field(
        None, description="Mix the model's probabilities with those of a 5-gram model of the training split."
    )
    tune: bool = Field(False, description="Choose rate, decay, size, theta and share on the validation split.")

    def is_wanted(self) -> bool:
        for name, wanted in (("dynamic", self.dynamic), ("cache", self.cache)):
            self.check_settings(name, wanted)
        if self.tune and not (self.dynamic or self.cache):
            raise ConfigError("--tune needs --dynamic or --cache; --interpolate fits its weight even without --tune")
        return self.dynamic or self.cache or self.interpolate is not None

    def check_settings(self, name: str, wanted: bool) -> None:
        """Raise ConfigError if a setting has no effect because its adaptation is off or --tune replaces it."""
        for field in sorted(self.model_fields_set):
            if not field.startswith(f"{name}_"):
                continue
            option = f"--{field.replace('_', '-')}"
            if not wanted:
                raise ConfigError(f"{option} is a setting of --{name}; add --{name}")
            if self.tune and field.removeprefix(f"{name}_") in TUNED[name]:
                raise ConfigError(f"--tune chooses {option} itself; leave out {option} or --tune")

    def settings_of(self, name: str) -> dict[str, Any]:
        given = {field: getattr(self, field) for field in self.model_fields_set if field.startswith(f"{name}_")}
        named = {field.removeprefix(f"{name}_"): value for field, value in given.items()}
        return {"segment_length" if field == "segment" else field: value for field, value in named.items()}

    def adaptations(self) -> "Adaptations":
        from rnnlm.extensions.adaptation.adaptation_table import Adaptations

        return Adaptations(
            dynamic=validated(DynamicConfig, self.settings_of("dynamic")) if self.dynamic else None,
            cache=validated(CacheConfig, self.settings_of("cache")) if self.cache else None,
            kneser_ney=self.interpolate is not None,
            tune=self.tune,
        )

    def measure(self, home: Home, folder: Path, config: CorpusConfig, split: Split | None) -> "AdaptationTable":
        from rnnlm.extensions.adaptation.adaptation_table import compare_on_corpus

        return compare_on_corpus(home, folder, config, self.adaptations(), split)
