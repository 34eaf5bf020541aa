"""Samples during training, and the saved model at the end."""

import shutil
from pathlib import Path

from rnnlm.config import PipelineConfig
from rnnlm.generation.generate import choose_prompts, continue_prompt
from rnnlm.home import write_json
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import save_model
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import statement
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.training.events import TrainingSamples


def sample_sentences(
    model: LanguageModel, config: PipelineConfig, dataset: DatasetRecord, step: int
) -> TrainingSamples:
    """Continuations of the configured prompts. Draws from its own generator."""
    tokenizer = load_tokenizer(dataset.tokenizer_folder)
    prompts = choose_prompts(dataset, tokenizer, config.generation)
    samples = tuple(continue_prompt(model, tokenizer, prompt, config.generation) for prompt in prompts)
    return TrainingSamples(step, samples)


def write_model(model: LanguageModel, folder: Path, dataset: DatasetRecord) -> None:
    """Write weights, configuration and tokenizer, and rnnlm.json: what is needed to score other text the same way."""
    save_model(model, folder)
    for path in dataset.tokenizer_folder.iterdir():
        shutil.copy(path, folder / path.name)
    with connect(dataset) as connection:
        mode, context_length, block_length = connection.execute(statement("queries/read_cut")).fetchall()[0]
    facts = {
        "dataset_id": dataset.dataset_id,
        "corpus_name": dataset.corpus_name,
        "corpus_digest": dataset.corpus_digest,
        "mode": mode,
        "context_length": context_length,
        "block_length": block_length,
    }
    write_json(folder / "rnnlm.json", facts)
