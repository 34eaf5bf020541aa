"""A corpus becomes one DuckDB file: token sequences whose shift by one stands in SQL, in one place."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from rnnlm.config import CorpusConfig, SequencesConfig
from rnnlm.corpora.splits import Document, documents
from rnnlm.errors import CorpusError
from rnnlm.home import Home, digest_of, read_json, write_json, write_once
from rnnlm.records import SPLITS, CorpusRecord, DatasetRecord, Split, TokenizerRecord
from rnnlm.sequences.cutting import Row, SentenceCutter, StreamCutter, cutter
from rnnlm.sequences.statements import statement
from rnnlm.stages import stage
from rnnlm.tokenizers.face import UNK, TextTokenizer, load_tokenizer

STAGE_VERSION = 1
LINES_AT_ONCE = 20_000  # encoded together: enough to keep the tokenizer's threads busy
NARROW_VOCABULARY = 65_536  # ids that fit two bytes


@stage("sequences")
def store_sequences(
    home: Home,
    corpus: CorpusRecord,
    corpus_config: CorpusConfig,
    tokenizer: TokenizerRecord,
    config: SequencesConfig,
    *,
    required_splits: tuple[Split, ...] = SPLITS,
    force: bool = False,
) -> DatasetRecord:
    """A dataset under home.datasets, named by the digest of all that it depends on.

    CorpusError where one of `required_splits` holds no token to predict.
    """
    provenance = {
        "stage": STAGE_VERSION,
        "corpus": corpus.digest,
        "shares": [corpus_config.valid_share, corpus_config.test_share],
        "tokenizer": tokenizer.digest,
        "sequences": config.model_dump(mode="json"),
        "required_splits": list(required_splits),
        "versions": {name: version(name) for name in ("duckdb", "tokenizers")},
    }
    dataset_id = digest_of(provenance)[:16]
    folder = home.datasets / dataset_id

    def build(partial: Path) -> None:
        shutil.copytree(tokenizer.folder, partial / "tokenizer", ignore=shutil.ignore_patterns("COMPLETE"))
        face = load_tokenizer(tokenizer.folder)
        database = partial / "sequences.duckdb"
        with duckdb.connect(str(database)) as connection:
            writer = DatasetWriter(connection, face, config)
            writer.write(documents(corpus, corpus_config))
            writer.write_provenance(dataset_id, corpus, tokenizer, provenance)
            predicted: dict[Split, int] = dict(
                connection.execute(statement("queries/count_predicted_tokens")).fetchall()
            )
        for split in required_splits:
            if not predicted.get(split):
                raise CorpusError(
                    f"{corpus.source}: the {split} split holds no token to predict; put text into {split}.txt,\n"
                    f"or raise corpus.{'valid' if split == 'train' else split}_share where one text is split"
                )
        write_json(
            partial / "dataset.json",
            {"mode": config.mode, "vocabulary_size": face.vocabulary_size, "predicted_tokens": predicted},
        )

    skipped = write_once(home, folder, build, force=force)
    return DatasetRecord(
        dataset_id=dataset_id,
        folder=folder,
        corpus_name=corpus.name,
        corpus_digest=corpus.digest,
        skipped=skipped,
        **read_json(folder / "dataset.json"),
    )


class DatasetWriter:
    """Fills the tables of a new dataset file, a batch of documents at a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, face: TextTokenizer, config: SequencesConfig) -> None:
        self.connection = connection
        self.face = face
        self.config = config
        self.cutters: dict[Split, SentenceCutter | StreamCutter] = {split: cutter(config) for split in SPLITS}
        self.next_sequence: dict[Split, int] = dict.fromkeys(SPLITS, 0)
        self.next_document = 0
        narrow = face.vocabulary_size <= NARROW_VOCABULARY
        self.token_type = pa.uint16() if narrow else pa.uint32()
        for name in (
            "schema/split",
            "schema/token_id" if narrow else "schema/token_id_wide",
            "schema/shifted_sequences",
            "schema/documents",
            "schema/tokens",
            "schema/dataset",
        ):
            connection.execute(statement(name))

    def write(self, stream: Iterator[Document]) -> None:
        for batch in in_batches(stream, LINES_AT_ONCE):
            self.write_documents(batch)
        for split in SPLITS:
            self.insert_rows(split, list(self.cutters[split].finish()))
        ids = list(range(self.face.vocabulary_size))
        tokens = pa.table({"token_id": pa.array(ids, self.token_type), "token": self.face.pieces(ids)})
        self.insert("queries/insert_tokens", tokens)

    def write_documents(self, batch: list[Document]) -> None:
        """Encode a batch of documents, cut them into rows, and insert both."""
        lines = [lines_of(document) for document in batch]
        encoded = iter(self.face.encode_lines([line for document in lines for line in document]))
        facts: list[dict[str, Any]] = []
        rows: dict[Split, list[Row]] = {split: [] for split in SPLITS}
        for document, texts in zip(batch, lines, strict=True):
            ids = [next(encoded) for _ in texts]
            rows[document.split] += self.cutters[document.split].add(ids)
            facts.append(self.describe(document, texts, ids))
        for split in SPLITS:
            self.insert_rows(split, rows[split])
        self.insert("queries/insert_documents", pa.Table.from_pylist(facts))

    def describe(self, document: Document, texts: list[str], ids: list[list[int]]) -> dict[str, Any]:
        """The document's row: where it lies, its digest, and what its unknown words cost."""
        unknown = [
            word for text, line in zip(texts, ids, strict=True) if UNK in line for word in self.face.unknown_words(text)
        ]
        data = document.text.encode("utf-8")
        self.next_document += 1
        return {
            "document_id": self.next_document - 1,
            "split": document.split,
            "source_file": document.source_file,
            "byte_offset": document.byte_offset,
            "byte_count": len(data),
            "line_count": len(texts),
            "sha256": hashlib.sha256(data).hexdigest(),
            "predicted_tokens": self.cutters[document.split].predicted(ids),
            "unknown_tokens": len(unknown),
            "unknown_bytes": sum(len(word.encode("utf-8")) for word in unknown),
        }

    def insert_rows(self, split: Split, rows: list[Row]) -> None:
        if not rows:
            return
        first = self.next_sequence[split]
        self.next_sequence[split] += len(rows)
        table = pa.table(
            {
                "split": [split] * len(rows),
                "sequence_id": pa.array(range(first, first + len(rows)), pa.int64()),
                "token_ids": pa.array(rows, pa.list_(self.token_type)),
            }
        )
        self.insert("queries/insert_sequences", table)

    def insert(self, name: str, table: pa.Table) -> None:
        self.connection.register("incoming", table)
        self.connection.execute(statement(name))
        self.connection.unregister("incoming")

    def write_provenance(
        self, dataset_id: str, corpus: CorpusRecord, tokenizer: TokenizerRecord, provenance: dict[str, Any]
    ) -> None:
        self.connection.execute(
            statement("queries/insert_dataset"),
            {
                "dataset_id": dataset_id,
                "corpus_digest": corpus.digest,
                "tokenizer_digest": tokenizer.digest,
                "mode": self.config.mode,
                "context_length": self.config.context_length,
                "block_length": self.config.block_length,
                "vocabulary_size": self.face.vocabulary_size,
                "splits_given": "text" not in corpus.files,
                "provenance": json.dumps(provenance, sort_keys=True),
            },
        )


def lines_of(document: Document) -> list[str]:
    """The document's lines without their ends; a final line end begins no further line."""
    lines = document.text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def in_batches(stream: Iterator[Document], line_count: int) -> Iterator[list[Document]]:
    batch: list[Document] = []
    lines = 0
    for document in stream:
        batch.append(document)
        lines += document.text.count("\n") + 1
        if lines >= line_count:
            yield batch
            batch, lines = [], 0
    if batch:
        yield batch
