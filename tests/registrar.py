"""Register a run in tests without passing all arguments of register_model."""

from rnnlm.config import PipelineConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, RegisteredVersion, SamplesRecord


class Registrar:
    """A callable that registers a run. It uses its own run and configuration unless others are given."""

    def __init__(
        self,
        home: Home,
        config: PipelineConfig,
        dataset: DatasetRecord,
        run: RunRecord,
        evaluation: EvaluationRecord,
        samples: SamplesRecord,
    ) -> None:
        self.home, self.config, self.dataset, self.run = home, config, dataset, run
        self.evaluation, self.samples = evaluation, samples

    def __call__(
        self, force: bool = False, run: RunRecord | None = None, config: PipelineConfig | None = None
    ) -> RegisteredVersion:
        # This import needs torch, so it must come after conftest.py has set environment variables.
        from rnnlm.registry.registration import register_model
        from rnnlm.registry.version_tags import Candidate

        candidate = Candidate(config or self.config, self.dataset, run or self.run, self.evaluation, self.samples)
        return register_model(self.home, candidate, force=force)
