"""The catalogue of the corpora that rnnlm knows by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnlm.corpora import counting_corpus, python_docs, zen_corpus

INSTALLATION = "made from this installation"


@dataclass(frozen=True)
class Entry:
    """A corpus of the catalogue, with its location, its licence and further information for users."""

    name: str
    location: str  # An http(s) address, the name of a data set on the hub (hf:…), or INSTALLATION.
    licence: str
    format: str
    splits: str  # The splits of the corpus, or how rnnlm makes them.
    size: str
    advice: str = ""  # The settings that are recommended for this corpus.
    gutenberg: bool = False  # If true, the header and the licence of Project Gutenberg are removed.
    # A function that returns everything on which the text of a generated corpus depends.
    versions: Callable[[], dict[str, str]] | None = None
    # A function that writes a generated corpus as a file or a folder of splits, and returns metadata about the text.
    write: Callable[[Path], dict[str, Any]] | None = None


BY_DIGEST = "by each document's digest"
GIVEN = "train, valid, test given"
WIKIPEDIA = "CC BY-SA 3.0 and GFDL (Wikipedia's authors)"

CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry(
            name="python-docs",
            location=INSTALLATION,
            licence="Python: PSF licence 2; libraries: their own, mostly BSD-3-Clause and Apache-2.0",
            format="text, a sentence a line",
            splits=BY_DIGEST,
            size="about 740,000 words",
            versions=python_docs.python_docs_versions,
            write=python_docs.write_python_docs,
        ),
        Entry(
            name="news",
            location="https://www.thelmbook.com/data/news",
            licence="not stated by its publisher (thelmbook.com): for study",
            format="text in tar.gz, a sentence a line",
            splits="train, test given; valid by digest",
            size="22,034,911 training sentences",
            advice="--preset textbook",
        ),
        Entry(
            name="brown",
            location="https://www.thelmbook.com/data/brown",
            licence="Brown Corpus (Francis and Kučera): free for non-commercial use",
            format="text in gzip",
            splits=BY_DIGEST,
            size="about 1 million words, 6 MB",
        ),
        Entry(
            name="wikitext-2",
            location="hf:Salesforce/wikitext:wikitext-2-raw-v1",
            licence=WIKIPEDIA,
            format="Parquet, by datasets",
            splits=GIVEN,
            size="2 million words, 13 MB",
        ),
        Entry(
            name="wikitext-103",
            location="hf:Salesforce/wikitext:wikitext-103-raw-v1",
            licence=WIKIPEDIA,
            format="Parquet, by datasets",
            splits=GIVEN,
            size="103 million words, 545 MB",
        ),
        Entry(
            name="tinyshakespeare",
            location="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            licence="public domain",
            format="text",
            splits=BY_DIGEST,
            size="1,115,394 bytes",
        ),
        Entry(
            name="war-and-peace",
            location="https://www.gutenberg.org/cache/epub/2600/pg2600.txt",
            licence="public domain in the USA (Project Gutenberg 2600, its own header and licence cut off)",
            format="text",
            splits=BY_DIGEST,
            size="about 570,000 words, 3 MB",
            gutenberg=True,
        ),
        Entry(
            name="counting",
            location=INSTALLATION,
            licence="none needed: computed",
            format="text, a line 37 38 39 …",
            splits=GIVEN,
            size="4,000 training lines",
            advice="--preset counting",
            versions=counting_corpus.counting_versions,
            write=counting_corpus.write_counting,
        ),
        Entry(
            name="zen",
            location=INSTALLATION,
            licence="Python: PSF licence 2 (Tim Peters)",
            format="text, one line",
            splits="the same text in all three",
            size="144 words",
            advice="--preset overfit",
            versions=zen_corpus.zen_versions,
            write=zen_corpus.write_zen,
        ),
    )
}
