"""The inspection of a local source, which is read into a temporary folder in the same way as by the corpus stage."""

import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.corpora.decision_ground import DecisionGround, decision_ground
from rnnlm.corpora.download import configured_source
from rnnlm.corpora.file_formats import TextReader
from rnnlm.corpora.hard_wrapping import looks_hard_wrapped
from rnnlm.corpora.small_corpora import explain_empty_split, fill_splits
from rnnlm.corpora.sources import OnDisk
from rnnlm.corpora.splits import corpus_documents, corpus_files, stored_lines
from rnnlm.corpora.text_writer import CorpusWriter
from rnnlm.errors import CorpusError
from rnnlm.storage.records import SPLITS, CorpusRecord, LeftOut, Record

INSPECTED_BYTES = 32 << 20  # The largest number of bytes of text that are inspected, which takes some seconds.
SECONDS_TO_START = 10.0  # The number of seconds that `rnnlm run` needs to start.
# The seconds that `rnnlm run` takes per byte of the corpus, measured for python-docs with default settings on 2 idle
# CPU cores; see README.
SECONDS_PER_BYTE = 170 / 4_600_000
UNSPACED = ("Han", "Kana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan")  # Scripts that have no spaces between words.
SCRIPTS = {"CJK": "Han", "HIRAGANA": "Kana", "KATAKANA": "Kana", "FULLWIDTH": "Latin", "HALFWIDTH": "Kana"}


class Undecodable(Record):
    """A text that is not in the configured encoding."""

    name: str
    problem: str
    guess: str | None  # The probable encoding of the text, by its name in Python.


class Inspection(Record):
    """The files that a run would read or leave out, and measurements of the text that it would store."""

    source: str
    files: int  # The number of files on disk.
    source_bytes: int  # The size of the files on disk in bytes.
    texts: int  # The number of files and archive members with text.
    whole: bool  # False if only the first INSPECTED_BYTES of the text were read.
    kinds: dict[str, int]  # The number of texts of each kind: text, a kind of document, or a kind of table.
    encodings: dict[str, int]  # The number of texts in each encoding.
    text_bytes: int
    lines: int
    words: int
    scripts: dict[str, float]  # The fraction of all letters that belong to each script.
    # The number of documents in each split. All numbers are 0 if reading ended before the files of all splits had been
    # reached.
    documents: dict[str, int]
    # The held-out lines on which a candidate would be compared with the champion, or None if they are unknown.
    ground: DecisionGround | None
    # The smallest number of documents or runs of lines in a comparison with the champion that can lead to a promotion.
    minimum_units: int
    training_seconds: float  # The estimated time that `rnnlm run` takes with default settings on 2 idle CPU cores.
    undecodable: tuple[Undecodable, ...]
    refusal: str | None  # The message of the error with which a run would end, or None if it would succeed.
    advice: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def inspect_source(pipeline: PipelineConfig) -> Inspection:
    """Read a file, folder or glob without storing it. Raise CorpusError for another source, or if there is no text."""
    config = pipeline.corpus
    source = configured_source(config)
    if not isinstance(source, OnDisk):
        raise CorpusError(
            f"{config.public_source}: expected a file, a folder or a glob, because inspect reads nothing else;\n"
            "rnnlm corpora describes the corpora known by name, and rnnlm prepare --corpus obtains any corpus"
        )
    with tempfile.TemporaryDirectory(prefix="rnnlm-inspect-") as scratch:
        writer = CorpusWriter(Path(scratch), config)
        reader = TextReader(config.source, source.files, config, Path(scratch), named=source.named)
        report = reader.report
        kinds: Counter[str] = Counter()
        encodings: Counter[str] = Counter()
        refusal = None
        try:
            for text in reader.texts():
                known_bad = len(report.undecodable)
                writer.append(text.role, up_to(text.pieces, INSPECTED_BYTES), text.label, rows=text.rows)
                if len(report.undecodable) == known_bad:
                    kinds[text.kind] += 1
                    encodings.update([text.encoding] if text.encoding else [])
                if writer.corpus_bytes >= INSPECTED_BYTES:
                    break
            else:
                writer.refuse_emptiness(config.public_source)
        except CorpusError as error:
            refusal = str(error)
        lines = words = 0
        scripts: dict[str, float] = {}
        documents: dict[str, int] = dict.fromkeys(SPLITS, 0)
        advice: tuple[str, ...] = ()
        ground = None
        if writer.any_text:
            corpus = written_corpus(writer, config)
            lines, words, scripts = measure_text(corpus)
            advice = tuple(advice_on(corpus, scripts, pipeline))
            splits_are_known = writer.corpus_bytes < INSPECTED_BYTES or set(writer.roles) == {"text"}
            # Documents are counted only if the splits are known, because the files of some splits may otherwise not
            # have been read yet.
            if splits_are_known:
                documents |= Counter(document.split for document in corpus_documents(corpus))
                empty = [split for split in SPLITS if not documents[split]]
                ground = None if empty else decision_ground(corpus)
                if empty and not refusal:
                    refusal = f"{config.public_source}: {explain_empty_split(corpus, empty[0])}"
        return Inspection(
            source=config.public_source,
            files=len(source.paths),
            source_bytes=sum(path.stat().st_size for path in source.paths),
            texts=kinds.total(),
            whole=writer.corpus_bytes < INSPECTED_BYTES,
            kinds=dict(kinds.most_common()),
            encodings=dict(encodings.most_common()),
            text_bytes=writer.corpus_bytes,
            lines=lines,
            words=words,
            scripts=scripts,
            documents=documents,
            ground=ground,
            minimum_units=pipeline.registry.minimum_units,
            training_seconds=SECONDS_TO_START + writer.corpus_bytes * SECONDS_PER_BYTE,
            undecodable=tuple(
                Undecodable(name=report.name_of(error.label), problem=error.place, guess=error.guess)
                for error in report.undecodable
            ),
            refusal=refusal,
            advice=() if refusal else advice,
            left_out=(*source.left_out, *report.left_out),
        )


def written_corpus(writer: CorpusWriter, config: CorpusConfig) -> CorpusRecord:
    """Return the corpus in the writer's folder, with the same splits as a stored corpus."""
    corpus = CorpusRecord(
        name="inspected",
        digest=writer.digest,
        folder=writer.folder,
        files=writer.files,
        shares=(config.valid_share, config.test_share),
        corpus_bytes=writer.corpus_bytes,
        source=config.public_source,
    )
    return fill_splits(corpus)


def up_to(pieces: Iterator[str], characters: int) -> Iterator[str]:
    """Yield the pieces until they have more than the given number of characters."""
    for piece in pieces:
        yield piece
        characters -= len(piece)
        if characters < 0:
            return


def measure_text(corpus: CorpusRecord) -> tuple[int, int, dict[str, float]]:
    """Return the number of lines, the number of words, and the fraction of letters of each script, largest first."""
    lines = words = 0
    characters: Counter[str] = Counter()
    for name in corpus_files(corpus):
        for line in stored_lines(corpus.folder / name):
            text = line.decode("utf-8")
            lines += 1
            words += len(text.split())
            characters.update(text)
    letters: Counter[str] = Counter()
    for character, count in characters.items():
        if character.isalpha():
            letters[script_of(character)] += count
    return lines, words, {script: count / letters.total() for script, count in letters.most_common()}


def script_of(letter: str) -> str:
    """Return the script of a letter, which is the beginning of its Unicode name."""
    first = unicodedata.name(letter, "UNNAMED").split(" ")[0].split("-")[0]
    return SCRIPTS.get(first, first.capitalize())


def advice_on(corpus: CorpusRecord, scripts: dict[str, float], pipeline: PipelineConfig) -> Iterator[str]:
    if corpus.document_lines:
        yield "the text is small, so it is split line by line, and no split is empty"
    if pipeline.tokenizer.kind == "word" and sum(scripts.get(script, 0.0) for script in UNSPACED) > 0.5:
        yield "its words have no spaces between them: set tokenizer.kind=bpe or tokenizer.kind=char"
    if pipeline.sequences.mode == "sentence" and looks_hard_wrapped(corpus):
        yield "its lines look wrapped at a fixed width: set sequences.mode=stream"
