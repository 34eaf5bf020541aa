"""Describe a served model by its corpus, size and test scores, with an example prompt.

A registered version has the corpus and scores in its tags, and a run has them in its folder. The folder is also read
for a registered version if its run is in this rnnlm home.
"""

import math
from pathlib import Path
from typing import Any

from rnnlm.extensions.serving.messages import ModelFacts
from rnnlm.metrics import finite_or_none
from rnnlm.models.language_model import LanguageModel
from rnnlm.registry.model_lookup import registered_version
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, read_json
from rnnlm.storage.json_results import read_stored_json
from rnnlm.storage.stage_folders import CorpusFolder, RunFolder
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS, UNK, TextTokenizer


def read_model_facts(
    home: Home, label: str, folder: Path, model: LanguageModel, tokenizer: TextTokenizer
) -> ModelFacts:
    """Return a description of the model. Values that cannot be found are None or empty.

    `label` is models:/NAME/3 or a folder, and `folder` is the folder of the model.
    """
    tags = registered_version(home, label).facts if label.startswith("models:/") else {}
    run = inside(home.runs, tags["run_id"]) if "run_id" in tags else folder.parent
    provenance = read_json(folder / "rnnlm.json") or {}
    scores = RunFolder(run).test_scores
    networks = model.networks
    return ModelFacts(
        model=label,
        corpus=tags.get("corpus_name") or provenance.get("corpus_name"),
        corpus_bytes=int(tags["corpus_bytes"]) if "corpus_bytes" in tags else corpus_bytes(home, provenance),
        tokenizer=tokenizer.kind,
        vocabulary_size=tokenizer.vocabulary_size,
        layers=sum(len(network.stack.cells) for network in networks),
        hidden_size=max(network.stack.hidden_size for network in networks),
        weights=sum(weights.numel() for weights in model.parameters()),
        perplexity=finite_or_none(float(tags.get("test_perplexity") or scores.get("perplexity", math.nan))),
        bits_per_byte=finite_or_none(float(tags.get("bits_per_byte") or scores.get("bits_per_byte", math.nan))),
        example_prompt=example_prompt(run, tokenizer),
    )


def corpus_bytes(home: Home, provenance: dict[str, Any]) -> int | None:
    """Return the size of the corpus, or None if the corpus is not in this rnnlm home."""
    digest = provenance.get("corpus_digest")
    return CorpusFolder.of(home, digest).facts.get("corpus_bytes") if isinstance(digest, str) else None


def example_prompt(run: Path, tokenizer: TextTokenizer) -> str:
    """Return the first prompt of the run's samples without unknown words, or "" if there is none."""
    samples = read_stored_json(RunFolder(run).final_samples_path)
    prompts = [str(sample.get("prompt", "")) for sample in samples] if isinstance(samples, list) else []
    known = (prompt for prompt in prompts if SPECIAL_TOKENS[UNK] not in prompt and not tokenizer.unknown_words(prompt))
    return next(filter(None, known), "")
