"""The corpus stage, which obtains a text from the catalogue, the hub, a file, a folder, a glob or an http(s) URL."""

import logging

from rnnlm.config import CorpusConfig
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.corpora.current_text import corpus_key, current_note, note_path
from rnnlm.corpora.freshness import Note, freshness_of, read_note
from rnnlm.corpora.hub import look_at_hub
from rnnlm.corpora.preflight import look_at
from rnnlm.corpora.printable_names import shortened
from rnnlm.corpora.reading_report import listed, log_left_out
from rnnlm.corpora.small_corpora import fill_splits
from rnnlm.corpora.source_names import HUB_PREFIX
from rnnlm.corpora.sources import Downloaded, OnDisk, OnHub, Source, find_source
from rnnlm.corpora.split_names import check_roles, named_splits, unclear_split_names
from rnnlm.corpora.text_encoding import check_encoding
from rnnlm.corpora.training_sample import sample_training
from rnnlm.errors import CorpusError
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord
from rnnlm.storage.shared_storage import find_storage
from rnnlm.storage.stage_folders import CorpusFolder
from rnnlm.storage.stages import fetch_folder, find_new_damage, mark_used, stage

logger = logging.getLogger(__name__)


class StoredText(CorpusConfig):
    """The settings of a corpus whose text is identified by its digest.

    The stored text is used, even if its source has changed since it was stored.
    """

    text_digest: str


@stage("corpus")
def obtain_corpus(home: Home, config: CorpusConfig, *, force: bool = False) -> CorpusRecord:
    """Store the corpus as clean UTF-8 text under home.corpora, in a folder named by the sha256 of its bytes.

    The whole text is stored, even if only a sample of it is used. A single UTF-8 file keeps its own sha256. A local
    file is read again only if its path, size or modification time has changed. A server or hub is asked for changes as
    often as config.refresh specifies. If it is unavailable, the stored copy is used, with a warning. Raise CorpusError
    if there is no text, and FetchError if a download failed and a later attempt may succeed.
    """
    if isinstance(config, StoredText):
        return sample_training(home, known_text(home, config), config.maximum_documents)
    source = configured_source(config)
    note, skipped = current_note(home, config, source, force)
    corpus = sample_training(home, corpus_record(home, config, source, note, skipped), config.maximum_documents)
    is_local = "://" not in corpus.source and not corpus.source.startswith(HUB_PREFIX)
    # The advice is only for local sources, because rnnlm inspect reads no others.
    advice = "; rnnlm inspect lists all" if is_local else ""
    log_left_out(corpus.source, corpus.left_out, advice)
    if corpus.carved_shares:
        whole = "the text" if "text" in corpus.files else "the training text"
        shares = ", ".join(f"{split} {share:.1%}" for split, share in corpus.carved_shares.items())
        logger.info("corpus: the documents of %s are divided into splits by their digests: %s", whole, shares)
    if corpus.document_lines:
        logger.info("corpus: the text is small, so it is split line by line, and no split is empty")
    if corpus.sample:
        count, size = f"{config.maximum_documents:,}", f"{corpus.sample.byte_count:,}"
        logger.info("corpus: at most %s training documents (%s bytes) are used, chosen by their digests", count, size)
    return corpus


def check_source(config: CorpusConfig, home: Home | None = None) -> None:
    """Raise CorpusError for a source that cannot be read, before any process is started for the run.

    The beginning of each local file is read. If `home` is given and does not contain a data set of the hub, the hub is
    asked whether the data set exists.
    """
    source = configured_source(config)
    if isinstance(source, OnDisk):
        look_at(config.source, source.files, source.named, config)
    elif isinstance(source, OnHub) and source.remote and home is not None and find_storage() is None:
        is_stored = read_note(home, note_path(home, corpus_key(config, source))) is not None
        if not is_stored:
            look_at_hub(source.source)


def configured_source(config: CorpusConfig) -> Source:
    """Return the source that the configuration names. Raise CorpusError if there is none."""
    check_encoding(config.encoding)
    source = find_source(config.source, config.format)
    if isinstance(source, OnDisk) and source.named:
        names = [file.name for file in source.files]
        check_roles(config.source, named_splits(names))
        if unclear := unclear_split_names(names):
            logger.warning(
                "%s: these files are read as ordinary text, because their names do not name a split: %s;\n"
                "if a file is a split, name it test.txt, or news-test.txt next to news-train.txt",
                config.source,
                shortened(unclear),
            )
    one_file = isinstance(source, Downloaded) or (isinstance(source, OnDisk) and not source.named)
    if config.sha256 and not one_file:
        raise CorpusError(
            f"corpus.sha256 needs a single file or URL as the source, but {config.source} is neither;\n"
            "leave out corpus.sha256"
        )
    return source


def corpus_record(home: Home, config: CorpusConfig, source: Source, note: Note, skipped: bool) -> CorpusRecord:
    """Return the record of the corpus that `note` describes. `skipped` is true if its text was already stored."""
    return stored_text(home, config, note.digest).model_copy(
        update={
            "before": note.before,
            "freshness": freshness_of(note, source),
            "skipped": skipped,
            "left_out": listed((*source.left_out, *note.left_out)),
        }
    )


def stored_text(home: Home, config: CorpusConfig, digest: str) -> CorpusRecord:
    """Return the record of the text with this digest. The text must be stored in the rnnlm home."""
    stored = CorpusFolder.of(home, digest)
    folder, about = stored.path, stored.facts
    for file_name in about["files"].values():
        inside(folder, file_name)
    corpus = CorpusRecord(
        name=corpus_name(config),
        digest=digest,
        folder=folder,
        files=about["files"],
        shares=(config.valid_share, config.test_share),
        corpus_bytes=about["corpus_bytes"],
        source_counts=about["source_counts"],
        licence=about["licence"],
        source=config.public_source,
        skipped=True,
    )
    return fill_splits(corpus)


def known_text(home: Home, config: StoredText) -> CorpusRecord:
    """Return the text with the configured digest from the rnnlm home, from the shared storage or from its source.

    Raise CorpusError if the stored text is damaged, or if the source now has a different text.
    """
    folder, digest = inside(home.corpora, config.text_digest[:16]), config.text_digest
    if find_storage() is not None and not folder.exists():
        with home.lock(f"{home.corpora.name}-{folder.name}"):
            fetch_folder(folder)
    if folder.exists():
        mark_used(folder)
        if (damage := find_new_damage(home, folder)) is not None:
            raise CorpusError(
                f"{folder}: the stored text is damaged: {damage}.\nRun rnnlm prepare with its corpus again."
            )
        return stored_text(home, config, digest)
    told = f"{config.public_source}: the text that the model was trained on, sha256 {digest[:12]}, is not in this home"
    try:
        corpus = obtain_corpus(home, CorpusConfig.model_construct(**dict(config)))
    except CorpusError as error:
        raise CorpusError(f"{told}:\n{str(error).splitlines()[0]};\ngive a text: --corpus TEXT") from error
    if corpus.digest != digest:
        raise CorpusError(
            f"{told},\nand its source now has another text, sha256 {corpus.digest[:12]};\ngive a text: --corpus TEXT"
        )
    return corpus
