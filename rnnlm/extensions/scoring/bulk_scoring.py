"""Score many texts, shard by shard, so that scoring continues where it was interrupted.

HOME/scores/KEY/shards/00000/00000000.parquet … finished shards, removed once the output is written

KEY is the digest of everything on which the scores depend. If the model, the input or a setting changes, scoring starts
from the beginning.
"""

import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from rnnlm.corpora.reading_report import listed, log_left_out
from rnnlm.display.progress import Progress
from rnnlm.extensions.scoring.document_reader import in_shards, read_documents, shard_growth
from rnnlm.extensions.scoring.document_scores import Scorer, chosen_tail_dtype
from rnnlm.extensions.scoring.input_files import InputFile, find_inputs, input_states
from rnnlm.extensions.scoring.score_output import (
    Provenance,
    check_output,
    read_provenance,
    reading_scores,
    write_output,
    write_shard,
)
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.scoring_model import FoundModel, find_model
from rnnlm.models.devices import choose_device
from rnnlm.runtime.engines import OpenEngine, in_this_process, results_in_order
from rnnlm.sequences.corpus_shards import SHARDS_A_FOLDER
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.home import Home, digest_of, expanded
from rnnlm.storage.records import LeftOut, Record, StageRecord
from rnnlm.storage.stages import STAGE_VERSIONS, stage

logger = logging.getLogger(__name__)
# The number of input bytes per process. A process needs 5 to 10 s to start, and scores less than 1 MB per second.
SCORED_BYTES_A_PROCESS = 16 << 20
# The fields of ScoringConfig on which the scores depend. Other fields concern only input, output and reports.
CHANGES_THE_SCORES = {
    *("query", "column", "id_column", "encoding", "quoting", "document", "keep_text", "surprising_tokens"),
    *("batch_size", "shard_documents"),  # These two fields affect the rounding of the scores.
}


class Totals(Record):
    """Totals over all documents."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0
    log_probability: float = 0.0  # The sum of the natural log-probabilities of all tokens in all documents.
    perplexity: float | None = None  # The perplexity of all tokens, or None if there were no tokens to predict.
    bits_per_byte: float | None = None
    unknown_rate: float | None = None


class ScoringRecord(StageRecord):
    """The result of scoring all documents.

    If there was nothing to score, the model was not searched for, and only `input_files` is set.
    """

    input_files: int
    left_out: tuple[LeftOut, ...] = ()  # The files that were not read, or whose text was changed.
    key: str = ""
    model: str = ""  # The reference in the complete form that full_reference() returns, such as models:/NAME@champion.
    model_folder: Path = Path()
    model_digest: str = ""
    output: Path | None = None  # The file with the scores, or None if there was nothing to score.
    totals: Totals = Totals()


@stage("scoring")
def score_texts(home: Home, config: ScoringConfig, open_engine: OpenEngine = in_this_process) -> ScoringRecord:
    """Score config.input, unless config.output already contains the scores.

    The output is the same whether or not scoring was interrupted. A Parquet file is even identical byte for byte.
    """
    inputs = find_inputs(config)
    files = inputs.files
    if not files:
        logger.info("scoring: %s contains nothing to score", config.input)
        return ScoringRecord(input_files=0)
    log_left_out(config.input, inputs.left_out)
    model = find_model(home, config.model)
    facts = score_facts(config, files, model)
    key = digest_of(facts)[:16]
    output = expanded(config.output or work_folder(home, key) / "scores.parquet").resolve()
    check_output(output, config, [file.path.resolve() for file in files])
    with home.lock(f"scores-{key}"):
        skipped = not config.force and (read_provenance(output) or {}).get("key") == key
        if not skipped:
            provenance = {"key": key, "model": model.reference, **facts}
            make_output(home, config, files, model, output, provenance, open_engine)
        shutil.rmtree(shards_folder(home, key), ignore_errors=True)
    totals = measure_totals(output)
    logger.info("scoring: %s documents", f"{totals.documents:,}")
    return ScoringRecord(
        input_files=len(files),
        left_out=listed(inputs.left_out),
        key=key,
        model=model.reference,
        model_folder=model.folder,
        model_digest=model.digest,
        output=output,
        totals=totals,
        skipped=skipped,
    )


def score_facts(config: ScoringConfig, files: tuple[InputFile, ...], model: FoundModel) -> dict[str, Any]:
    """Return everything on which the scores depend."""
    return {
        "stage": STAGE_VERSIONS["scoring"],
        "model_digest": model.digest,
        "inputs": input_states(files),
        "settings": config.model_dump(mode="json", include=CHANGES_THE_SCORES),
        "device": choose_device(config.device).type,
        "tail": str(chosen_tail_dtype(config)),
        "versions": {name: version(name) for name in ("torch", "tokenizers", "pyarrow", "duckdb")},
    }


def work_folder(home: Home, key: str) -> Path:
    return home.scores / key


def shards_folder(home: Home, key: str) -> Path:
    return work_folder(home, key) / "shards"


def make_output(
    home: Home,
    config: ScoringConfig,
    files: tuple[InputFile, ...],
    model: FoundModel,
    output: Path,
    provenance: Provenance,
    open_engine: OpenEngine,
) -> None:
    """Score the shards that are missing, and write all shards to the output."""
    folder = shards_folder(home, provenance["key"])
    if config.force:
        shutil.rmtree(folder, ignore_errors=True)
    home.make(folder)
    # Remove the partial files of a killed run. No other run writes to this folder, because this one holds the lock.
    for leftover in folder.rglob(".*"):
        leftover.unlink()
    shards = score_shards(folder, config, files, model, open_engine)
    with home.lock(f"scores-to-{digest_of(str(output))[:16]}"):
        write_output(output, shards, provenance)


@dataclass(frozen=True)
class ShardScorer:
    """A callable that scores shards. It can be pickled."""

    model: FoundModel
    config: ScoringConfig
    threads: int  # The number of threads that torch uses.

    def __call__(self, path: Path, documents: pa.Table) -> int:
        """Score documents of INPUT_SCHEMA, write the scores to `path`, and return the number of tokens."""
        torch.set_num_threads(self.threads)
        score = cached_scorer(self.model, self.config)
        scores = score(documents)
        write_shard(path, scores)
        return int(scores["tokens"].to_numpy().sum())


@lru_cache(maxsize=1)
def cached_scorer(model: FoundModel, config: ScoringConfig) -> Scorer:
    return model.load(config)


def score_shards(
    folder: Path, config: ScoringConfig, files: tuple[InputFile, ...], model: FoundModel, open_engine: OpenEngine
) -> list[Path]:
    """Write one file per shard, and return the paths in the order of the shards. Existing files are kept."""
    shards: list[Path] = []
    start, tokens = time.monotonic(), 0
    growth = shard_growth(total_bytes(files))
    with (
        open_engine(worthwhile_processes(config, files)) as engine,
        Progress("scoring", None, "document") as progress,
    ):

        def missing_shards() -> Iterator[tuple[Path, pa.Table]]:
            for number, shard in enumerate(in_shards(read_documents(files, config), config, growth)):
                path = folder / f"{number // SHARDS_A_FOLDER:05d}" / f"{number:08d}.parquet"
                shards.append(path)
                if path.exists():
                    progress.update(len(shard))
                else:
                    path.parent.mkdir(exist_ok=True)
                    yield path, shard

        scorer = ShardScorer(model, config, max(1, torch.get_num_threads() // engine.workers))
        for (_, documents), scored_tokens in results_in_order(engine, scorer, missing_shards()):
            tokens += scored_tokens
            progress.facts(f"{tokens / (time.monotonic() - start):,.0f} tokens/s")
            progress.update(len(documents))
    cached_scorer.cache_clear()  # The memory of the model is freed, because the process may continue for a long time.
    return shards


def worthwhile_processes(config: ScoringConfig, files: tuple[InputFile, ...]) -> int:
    """Return the largest number of processes that makes scoring these files faster, which is 1 for a GPU."""
    if choose_device(config.device).type != "cpu":
        return 1
    return 1 + total_bytes(files) // SCORED_BYTES_A_PROCESS


def total_bytes(files: tuple[InputFile, ...]) -> int:
    return sum(file.path.stat().st_size for file in files)


def measure_totals(output: Path) -> Totals:
    with reading_scores(output) as connection:
        return Totals(**table(connection, "scoring/measure_scores", {})[0])
