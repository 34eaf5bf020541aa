"""The folders in which stages store their results. Other packages read their files through these classes.

A file that is missing or not JSON is read as an empty dictionary, unless a method documents another behaviour. A caller
that needs an undamaged folder checks it first; see storage/stages.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.json_results import read_stored_json
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.stages import COMPLETE

SAMPLES, TRACKING = "samples", "tracking.json"
TIME_OF_START = "time_of_start"
# A file in the folders of a run and of its initial model. It contains the fingerprints of all documents on which the
# initial model and its predecessors were trained.
ANCESTOR_DOCUMENTS = "ancestor_documents.parquet"


@dataclass(frozen=True)
class CorpusFolder:
    """A folder of home.corpora, with the text of a corpus and its splits."""

    path: Path

    @classmethod
    def of(cls, home: Home, digest: str) -> Self:
        """Return the folder of the corpus with this sha256. Raise HomeError if `digest` leads out of home.corpora."""
        return cls(inside(home.corpora, digest[:16]))

    @property
    def facts(self) -> dict[str, Any]:
        """The names of the files, the size, the licence and the number of sources of each file."""
        return read_json_object(self.path / "corpus.json")


@dataclass(frozen=True)
class DatasetFolder:
    """A folder of home.datasets, which a DatasetRecord describes."""

    path: Path

    @property
    def exists(self) -> bool:
        return self.facts_path.exists()

    @property
    def facts_path(self) -> Path:
        return self.path / "dataset.json"

    @property
    def facts(self) -> dict[str, Any]:
        """All fields of the DatasetRecord except dataset_id and folder."""
        return read_json_object(self.facts_path)

    def record(self) -> DatasetRecord:
        return DatasetRecord(dataset_id=self.path.name, folder=self.path, **self.facts)


@dataclass(frozen=True)
class RunFolder:
    """A folder of home.runs, with the files of a training run and of the stages after it.

    config.json, started.json       configuration, the ids of the run and its dataset, the time of the start
    history.jsonl, samples/         measurements, and samples during training
    tracking.json                   the positions in history and samples up to which entries were sent to MLflow
    processes/                      job and result of distributed training; deleted when the run is complete
    drawn_targets.npy               additional targets (training/further_targets.py); deleted when the run is complete
    checkpoints/                    see training/checkpointing/checkpoints.py; deleted when the run is complete
    ancestor_documents.parquet      the training documents of the initial model and its predecessors
    model/, run.json, COMPLETE      the result: the best weights, and the n-gram model mixed with them
    evaluation.json, samples.json   the results of the stages after training
    """

    path: Path

    @classmethod
    def all(cls, home: Home) -> Iterator[Self]:
        """Yield the folders of all runs that were started, in arbitrary order."""
        return (cls(path.parent) for path in home.runs.glob("*/started.json"))

    @property
    def configuration_path(self) -> Path:
        return self.path / "config.json"

    @property
    def started_path(self) -> Path:
        return self.path / "started.json"

    @property
    def history(self) -> Path:
        return self.path / "history.jsonl"

    @property
    def samples(self) -> Path:
        """The folder of the samples that were written during training."""
        return self.path / SAMPLES

    @property
    def tracking_path(self) -> Path:
        return self.path / TRACKING

    @property
    def facts_path(self) -> Path:
        return self.path / "run.json"

    @property
    def evaluation_path(self) -> Path:
        return self.path / "evaluation.json"

    @property
    def final_samples_path(self) -> Path:
        return self.path / "samples.json"

    @property
    def finished(self) -> bool:
        return (self.path / COMPLETE).exists()

    @property
    def configuration(self) -> dict[str, Any]:
        """The fields of the PipelineConfig with which the run was started."""
        return read_json_object(self.configuration_path)

    @property
    def started(self) -> dict[str, Any]:
        """The run's id, its dataset's id, the time of its start and, if any, its initial model and its members."""
        return read_json_object(self.started_path)

    @property
    def time_of_start(self) -> str | None:
        """The UTC time at which the run was first started, in ISO 8601. Runs of earlier releases have none."""
        time = self.started.get(TIME_OF_START)
        return time if isinstance(time, str) else None

    def write_started(self, facts: dict[str, Any]) -> None:
        """Write started.json with the time of the start. A resumed run keeps the time of its first start."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_json(self.started_path, facts | {TIME_OF_START: self.time_of_start or now})

    @property
    def tracking(self) -> dict[str, Any]:
        """The state of the run's tracker, such as mlflow_run_id."""
        return read_json_object(self.tracking_path)

    @property
    def facts(self) -> dict[str, Any]:
        """All fields of the RunRecord except folder. They exist after training."""
        return read_json_object(self.facts_path)

    def record(self, *, skipped: bool = False) -> RunRecord:
        """Return the record of the finished run. Raise ValidationError if run.json is missing or damaged."""
        return RunRecord.model_validate({**self.facts, "folder": self.path, "skipped": skipped})

    @property
    def test_scores(self) -> dict[str, Any]:
        """The fields of the SplitScore of the test split, which exist after the evaluation."""
        evaluation = read_stored_json(self.evaluation_path)
        scores = evaluation.get("test") if isinstance(evaluation, dict) else None
        return scores if isinstance(scores, dict) else {}


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty one if the file is missing or contains anything else."""
    content = read_json(path)
    return content if isinstance(content, dict) else {}
