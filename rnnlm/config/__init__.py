"""The configuration of the whole pipeline. It has one frozen section per stage, and is the only parameter of the flows.

`PipelineConfig()` is the configuration of `rnnlm run` and of the nightly deployment. A preset (presets/) contains its
differences from this configuration. The options of single commands (probes, evaluation/ngram,
evaluation/test_time_adaptation, scoring and serving) are defined in configuration modules next to their code.
"""

from rnnlm.config.bounds import LOWEST_TEMPERATURE, MaximumTokens, Seed, Temperature, TopK, TopP
from rnnlm.config.data_config import CorpusConfig, GatesConfig, SequencesConfig, TokenizerConfig
from rnnlm.config.engine_config import EngineConfig
from rnnlm.config.evaluation_config import SCORED_ROWS, SHARD_DOCUMENTS, EvaluationConfig, GenerationConfig
from rnnlm.config.model_config import (
    DEFAULT_UNITS,
    Backend,
    ModelConfig,
    ModelKind,
    Nonlinearity,
    RecurrentInitialization,
)
from rnnlm.config.pipeline_config import (
    SIZE_SETTINGS,
    STAGES,
    LimitsConfig,
    PipelineConfig,
    Preset,
    Promote,
    RegistryConfig,
    Stage,
    TrackingConfig,
    changeable_settings,
)
from rnnlm.config.section import Section, changes_results, result_settings, setting
from rnnlm.config.training_config import (
    AveragingConfig,
    CheckpointsConfig,
    DivergenceConfig,
    DropoutConfig,
    FeedConfig,
    LossConfig,
    OptimizerConfig,
    Precision,
    ScheduleConfig,
    TrainingConfig,
    ValidationConfig,
    WarmStartConfig,
)
