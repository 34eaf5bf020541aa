"""A model measured on text of the caller's choice."""

from pathlib import Path

from rnnlm.config import CorpusConfig, SequencesConfig
from rnnlm.corpora.sources import obtain_corpus
from rnnlm.errors import ModelError
from rnnlm.evaluation.scoring import score_split
from rnnlm.home import Home, file_digest, read_json
from rnnlm.models.building import load_model
from rnnlm.records import Split, SplitScore, TokenizerRecord
from rnnlm.sequences.storing import store_sequences
from rnnlm.tokenizers.face import load_tokenizer


def score_corpus(
    home: Home, folder: Path, config: CorpusConfig, split: Split | None = None, batch_size: int = 64
) -> SplitScore:
    """Score the model in `folder` on a corpus, cut and tokenized as the model's own training text was.

    Without a split: `test` where the corpus gives splits or is the one the model was trained on (a figure
    on text it has seen means nothing), else the whole text, reported as split `all`. The unigram baseline
    counts that corpus's own training split; of a whole text, the text itself.
    """
    facts = read_json(folder / "rnnlm.json")
    if not isinstance(facts, dict):
        raise ModelError(f"{folder}: rnnlm.json is missing or damaged; train or register the model again")
    model, face = load_model(folder), load_tokenizer(folder)
    corpus = obtain_corpus(home, config)
    whole = split is None and "text" in corpus.files and corpus.digest != facts["corpus_digest"]
    if whole:  # no share is held back, so all of it lies in the split called train
        config = config.model_copy(update={"valid_share": 0.0, "test_share": 0.0})
    scored: Split = "train" if whole else (split or "test")
    tokenizer = TokenizerRecord(
        digest=file_digest(folder / "tokenizer.json"),
        folder=folder,
        kind=face.kind,
        vocabulary_size=face.vocabulary_size,
    )
    cut = SequencesConfig(**{name: facts[name] for name in ("mode", "context_length", "block_length")})
    dataset = store_sequences(home, corpus, config, tokenizer, cut, required_splits=(scored,))
    score = score_split(model, dataset, scored, batch_size)
    return score.model_copy(update={"split": "all"}) if whole else score
