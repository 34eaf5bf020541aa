"""Score texts in bulk, shard by shard, so that a killed scoring resumes where it stopped.

HOME/scores/KEY/shards/00000000.parquet …   finished shards; removed once the output is written
KEY is the digest of everything the scores depend on: another model, input or setting starts anew.
"""

import logging
import shutil
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rnnlm.home import Home, digest_of
from rnnlm.models.devices import choose_device
from rnnlm.progress import Progress
from rnnlm.records import Record, StageRecord
from rnnlm.scoring.document_reader import in_shards, read_documents
from rnnlm.scoring.document_scores import tail_dtype
from rnnlm.scoring.input_files import InputFile, find_inputs, input_states
from rnnlm.scoring.score_output import (
    Provenance,
    check_output,
    read_provenance,
    reading_scores,
    write_output,
    write_shard,
)
from rnnlm.scoring.scoring_config import ScoringConfig
from rnnlm.scoring.scoring_model import FoundModel, find_model
from rnnlm.sequences.sql_tables import table
from rnnlm.stages import STAGE_VERSIONS, stage

logger = logging.getLogger(__name__)
CHANGES_THE_SCORES = {  # fields of ScoringConfig; the others are about input, output and reporting
    *("query", "column", "id_column", "document", "keep_text", "surprising_tokens"),
    *("batch_size", "shard_documents"),  # by rounding
}


class Totals(Record):
    """Sums over all documents."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0
    log_probability: float = 0.0  # natural logarithm
    perplexity: float | None = None  # None if nothing was predicted
    bits_per_byte: float | None = None
    unknown_rate: float | None = None


class ScoringRecord(StageRecord):
    """A finished scoring."""

    key: str
    model: str  # as the caller named it
    model_folder: Path
    model_digest: str
    input_files: int
    output: Path | None = None  # None: there was nothing to score
    totals: Totals = Totals()


@stage("scoring")
def score_texts(home: Home, config: ScoringConfig) -> ScoringRecord:
    """Score config.input, unless config.output already holds these scores.

    A resumed scoring gives the same output as an uninterrupted one; a Parquet file is identical byte for byte.
    """
    files = find_inputs(config)
    model = find_model(home, config.model)
    facts = score_facts(config, files, model)
    key = digest_of(facts)[:16]
    record = ScoringRecord(
        key=key,
        model=model.reference,
        model_folder=model.folder,
        model_digest=model.digest,
        input_files=len(files),
    )
    if not files:
        logger.info("scoring: %s holds nothing to score", config.input)
        return record
    output = Path(config.output).expanduser().resolve()
    check_output(output, config, [file.path.resolve() for file in files])
    with home.lock(f"scores-{key}"):
        skipped = not config.force and (read_provenance(output) or {}).get("key") == key
        if not skipped:
            make_output(home, config, files, model, output, {"key": key, "model": model.reference, **facts})
        shutil.rmtree(shards_folder(home, key), ignore_errors=True)
    totals = measure_totals(output)
    logger.info("scoring: %s documents", f"{totals.documents:,}")
    return record.model_copy(update={"output": output, "totals": totals, "skipped": skipped})


def score_facts(config: ScoringConfig, files: list[InputFile], model: FoundModel) -> dict[str, Any]:
    """Everything that the scores depend on."""
    return {
        "stage": STAGE_VERSIONS["scoring"],
        "model_digest": model.digest,
        "inputs": input_states(files),
        "settings": config.model_dump(mode="json", include=CHANGES_THE_SCORES),
        "device": choose_device(config.device).type,
        "tail": str(tail_dtype(config)),
        "versions": {name: version(name) for name in ("torch", "tokenizers", "pyarrow", "duckdb")},
    }


def work_folder(home: Home, key: str) -> Path:
    return home.scores / key


def shards_folder(home: Home, key: str) -> Path:
    return work_folder(home, key) / "shards"


def make_output(
    home: Home, config: ScoringConfig, files: list[InputFile], model: FoundModel, output: Path, provenance: Provenance
) -> None:
    """Score the missing shards, then write them to the output."""
    folder = shards_folder(home, provenance["key"])
    if config.force:
        shutil.rmtree(folder, ignore_errors=True)
    home.make(folder)
    for leftover in folder.glob(".*"):  # partial writes of a killed run; this run holds the lock
        leftover.unlink()
    shards = score_shards(folder, config, files, model)
    with home.lock(f"scores-to-{digest_of(str(output))[:16]}"):
        write_output(output, shards, provenance)


def score_shards(folder: Path, config: ScoringConfig, files: list[InputFile], model: FoundModel) -> list[Path]:
    """One file per shard, in order; existing ones are kept."""
    score = model.load(config)
    shards = []
    start, tokens = time.monotonic(), 0
    with Progress("scoring", None, "document") as progress:
        for number, shard in enumerate(in_shards(read_documents(files, config), config)):
            path = folder / f"{number:08d}.parquet"
            shards.append(path)
            if not path.exists():
                scores = score(shard)
                write_shard(path, scores)
                tokens += sum(scores["tokens"].to_pylist())
                progress.facts(f"{tokens / (time.monotonic() - start):,.0f} tokens/s")
            progress.update(len(shard))
    return shards


def measure_totals(output: Path) -> Totals:
    with reading_scores(output) as connection:
        return Totals(**table(connection, "scoring/measure_scores", {})[0])
