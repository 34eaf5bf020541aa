"""Texts in, scores out: shard by shard, so that a killed scoring goes on where it stopped.

HOME/scores/KEY/shards/00000000.parquet …   shards that are done; gone when the output is there
KEY is the digest of all that the scores depend on: another model, input or setting begins anew.
"""

import logging
import shutil
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rnnlm.home import Home, digest_of
from rnnlm.records import Record, StageRecord
from rnnlm.scoring.document_reader import documents, in_shards
from rnnlm.scoring.input_files import InputFile, find_inputs, fingerprint
from rnnlm.scoring.projection_precision import precision_of_tail
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
from rnnlm.stages import STAGE_VERSIONS
from rnnlm.training.devices import choose_device

logger = logging.getLogger(__name__)
LOG_EVERY_SECONDS = 10.0
CHANGES_THE_SCORES = {  # fields of ScoringConfig; the others say where from, where to, and what to do with it
    *("query", "column", "id_column", "document", "keep_text", "surprising_tokens"),
    *("batch_size", "shard_documents"),  # by rounding
}


class Totals(Record):
    """All documents together."""

    documents: int
    tokens: int
    bytes: int
    log_probability: float  # natural logarithm
    perplexity: float | None  # None where nothing was predicted
    bits_per_byte: float | None
    unknown_rate: float | None


class ScoringRecord(StageRecord):
    """A finished scoring."""

    key: str
    model: str  # the name it was asked for by
    model_folder: Path
    model_digest: str
    input_files: int
    output: Path | None  # None: there was nothing to score
    totals: Totals


NOTHING = Totals(
    documents=0, tokens=0, bytes=0, log_probability=0.0, perplexity=None, bits_per_byte=None, unknown_rate=None
)


def score_texts(home: Home, config: ScoringConfig) -> ScoringRecord:
    """Score what config.input names, unless config.output holds these very scores.

    The output is the same whatever was killed on the way, bit by bit where it is a Parquet file.
    """
    start = time.perf_counter()
    files = find_inputs(config)
    model = find_model(home, config.model)
    facts = all_it_depends_on(config, files, model)
    key = digest_of(facts)[:16]
    output = Path(config.output).expanduser().resolve()
    record = ScoringRecord(
        key=key,
        model=model.reference,
        model_folder=model.folder,
        model_digest=model.digest,
        input_files=len(files),
        output=None,
        totals=NOTHING,
    )
    if not files:
        logger.info("scoring: %s holds nothing to score", config.input)
        return record
    check_output(output, config, [file.path.resolve() for file in files])
    with home.lock(f"scores-{key}"):
        skipped = not config.force and (read_provenance(output) or {}).get("key") == key
        if not skipped:
            make_output(home, config, files, model, output, {"key": key, "model": model.reference, **facts})
        shutil.rmtree(shards_folder(home, key), ignore_errors=True)
    totals = measure(output)
    seconds = time.perf_counter() - start
    logger.info(
        "scoring: %s, %s documents (%.1f s)",
        "skipped, the output holds these scores" if skipped else "done",
        f"{totals.documents:,}",
        seconds,
    )
    return record.model_copy(update={"output": output, "totals": totals, "skipped": skipped, "seconds": seconds})


def all_it_depends_on(config: ScoringConfig, files: list[InputFile], model: FoundModel) -> dict[str, Any]:
    return {
        "stage": STAGE_VERSIONS["scoring"],
        "model_digest": model.digest,
        "inputs": fingerprint(files),
        "settings": config.model_dump(mode="json", include=CHANGES_THE_SCORES),
        "device": choose_device(config.device).type,
        "tail": str(precision_of_tail(config)),
        "versions": {name: version(name) for name in ("torch", "tokenizers", "pyarrow", "duckdb")},
    }


def work_folder(home: Home, key: str) -> Path:
    return home.scores / key


def shards_folder(home: Home, key: str) -> Path:
    return work_folder(home, key) / "shards"


def make_output(
    home: Home, config: ScoringConfig, files: list[InputFile], model: FoundModel, output: Path, provenance: Provenance
) -> None:
    """Score what is not scored yet, then put the shards together."""
    folder = shards_folder(home, provenance["key"])
    if config.force:
        shutil.rmtree(folder, ignore_errors=True)
    home.make(folder)
    for leftover in folder.glob(".*"):  # half-written when a run was killed: we hold the lock
        leftover.unlink()
    shards = score_shards(folder, config, files, model)
    with home.lock(f"scores-to-{digest_of(str(output))[:16]}"):
        write_output(output, shards, provenance)


def score_shards(folder: Path, config: ScoringConfig, files: list[InputFile], model: FoundModel) -> list[Path]:
    """A file a shard, in order. Those that are there are left as they are."""
    score = model.load(config)
    progress = Progress()
    shards = []
    for number, shard in enumerate(in_shards(documents(files, config), config)):
        path = folder / f"{number:08d}.parquet"
        shards.append(path)
        if not path.exists():
            scores = score(shard)
            write_shard(path, scores)
            progress.done(len(scores), sum(scores["tokens"].to_pylist()))
    return shards


def measure(output: Path) -> Totals:
    with reading_scores(output) as connection:
        return Totals(**table(connection, "scoring/measure_scores", {})[0])


class Progress:
    """A log line every few seconds: how much is scored, and how fast."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.next_line = self.start + LOG_EVERY_SECONDS
        self.documents = self.tokens = 0

    def done(self, documents: int, tokens: int) -> None:
        self.documents += documents
        self.tokens += tokens
        now = time.monotonic()
        if now >= self.next_line:
            self.next_line = now + LOG_EVERY_SECONDS
            speed = self.tokens / (now - self.start)
            logger.info("scoring: %s documents, %s tokens/s", f"{self.documents:,}", f"{speed:,.0f}")
