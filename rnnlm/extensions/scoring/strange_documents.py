"""Find the strangest of the scored documents by the loss of their wording and by the size of their numbers.

A model reads a number as a few tokens, whose loss depends little on its size. Numbers are therefore compared separately
from the wording. The deviations of wording and numbers are measured in median absolute deviations (Hampel 1974), so
that they can be ranked in one list.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from rnnlm.evaluation.document_figures import with_line_end
from rnnlm.evaluation.text_tokens import token_positions
from rnnlm.extensions.scoring.bulk_scoring import ScoringRecord
from rnnlm.extensions.scoring.score_output import reading_scores
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.records import Record
from rnnlm.storage.sql_statements import statement
from rnnlm.tokenizers.text_tokenizer import WORD, load_tokenizer

SAMPLED_DOCUMENTS = 100_000  # The approximate number of documents from which the usual sizes of numbers are estimated.
LEAST_DEVIATIONS = 3.0  # The smallest deviation, in median absolute deviations, of a listed document.
# Words are marked if their highest token loss exceeds this fraction of the document's highest token loss.
MARKED_SHARE = 0.5


class UnusualNumber(Record):
    """A number far from the usual size of the numbers in the same field."""

    number: str  # The number as it is spelled in the text.
    field: str  # The words around the number, with digits and identifiers masked.
    usual: float  # The median of the field's numbers.


class StrangeDocument(Record):
    """A document as an example of all documents that are strange in the same way."""

    source: str
    place: int  # The number of the line, paragraph or row within the source, from 0.
    id: str | None
    text: str
    bits_per_byte: float
    deviations: float  # The deviation of the bits per byte or of the number, in median absolute deviations.
    documents: int  # The number of documents that are strange in the same way as this one.
    number: UnusualNumber | None  # The unusual number, or None if the wording of the document is strange.
    # Ranges (start, end) in the text, in order: the range of the number, or those of the words with the highest loss.
    marks: tuple[tuple[int, int], ...]


def find_strange_documents(scoring: ScoringRecord, count: int) -> tuple[StrangeDocument, ...]:
    """Return the strangest documents, the strangest first. The output must include the texts.

    The result is empty if nothing was scored.
    """
    if scoring.output is None:
        return ()
    with reading_scores(scoring.output) as connection:
        connection.execute(statement("scoring/create_masking"))
        connection.execute(statement("scoring/view_numbers"))
        connection.execute(statement("scoring/create_usual_numbers"), {"sampled": SAMPLED_DOCUMENTS})
        values = {"count": count, "least_deviations": LEAST_DEVIATIONS}
        rows = table(connection, "scoring/read_strange_documents", values)
    return tuple(strange_document(row, scoring.model_folder) for row in rows)


def strange_document(row: dict[str, Any], model_folder: Path) -> StrangeDocument:
    number, surprising = row.pop("number"), row.pop("surprising")
    text = with_line_end(row.pop("text")).removesuffix("\n")  # The text in the form in which the model reads it.
    if number is None:
        return StrangeDocument(**row, text=text, number=None, marks=surprising_marks(text, surprising, model_folder))
    start = number_start(text, number["place"], number["number"])
    marks = ((start, start + len(number["number"])),)
    found = UnusualNumber(number=number["number"], field=number["field"].strip(), usual=number["usual"])
    return StrangeDocument(**row, text=text, number=found, marks=marks)


def number_start(text: str, place: int, number: str) -> int:
    """Return the index at which the number begins in the word at `place`, which counts from 1."""
    words = text.split(" ")
    return sum(len(word) + 1 for word in words[: place - 1]) + words[place - 1].find(number)


def surprising_marks(text: str, surprising: list[dict[str, Any]], model_folder: Path) -> tuple[tuple[int, int], ...]:
    """Return the ranges of all words that have a token with at least MARKED_SHARE of the highest loss."""
    if not surprising:
        return ()
    positions = list(token_positions(*reader_of(model_folder), with_line_end(text)))
    least = MARKED_SHARE * surprising[0]["bits"]
    tokens = [positions[token["place"]] for token in surprising if token["bits"] >= least]
    words = (word.span() for word in WORD.finditer(text))
    return tuple((first, last) for first, last in words if any(start < last and end > first for start, end in tokens))


@lru_cache(maxsize=1)
def reader_of(model_folder: Path) -> tuple[Any, Any]:
    """Return the tokenizer of a model, and the settings by which text is split into rows."""
    return load_tokenizer(model_folder), read_training_provenance(model_folder).cut
