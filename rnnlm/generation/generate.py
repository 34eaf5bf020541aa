"""Generation of text from prompts with a trained model."""

import logging
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from rnnlm.config import GenerationConfig
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Sampling, continue_batch, text_sampling
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.dataset_reader import read_openings
from rnnlm.storage.home import Home
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import DatasetRecord, RunRecord, Sample
from rnnlm.storage.result_records import SamplesRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import stage, stage_key
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS, UNK, TextTokenizer, load_tokenizer

logger = logging.getLogger(__name__)
DRAWS = 4  # The largest number of attempts to draw a text that is not empty.
# The number of prompts if none are configured. Each prompt consists of the first words of a validation sequence.
OPENINGS = 3
PROMPT_WORDS = 2  # The number of words in each of these prompts, whatever tokens the words consist of.
# The number of tokens that are read from each validation sequence. It is enough for PROMPT_WORDS words.
OPENING_TOKENS = 40


@stage("samples")
def generate_samples(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: GenerationConfig, *, force: bool = False
) -> SamplesRecord:
    """Draw a sample for each prompt, and store the samples in the run's folder."""

    def build() -> list[dict[str, object]]:
        model, tokenizer = load_model(run.model_folder), load_tokenizer(run.model_folder)
        prompts = choose_prompts(dataset, tokenizer, config)
        return [sample.model_dump() for sample in continue_prompts(model, tokenizer, prompts, config)]

    key = stage_key("samples", run=run.run_id, generation=config.model_dump(mode="json"))
    value, skipped = write_json_once(home, RunFolder(run.folder).final_samples_path, key, build, force=force)
    return SamplesRecord(samples=tuple(Sample(**sample) for sample in value), skipped=skipped)


def choose_prompts(dataset: DatasetRecord, tokenizer: TextTokenizer, config: GenerationConfig) -> tuple[str, ...]:
    """Return the configured prompts.

    If there are none, return the empty prompt and the first words of validation sequences.
    """
    if config.prompts is not None:
        return config.prompts
    openings = [tokenizer.decode(ids) for ids in read_openings(dataset, OPENINGS, OPENING_TOKENS)]
    words = [" ".join(opening.split()[:PROMPT_WORDS]) for opening in openings]
    return tuple(dict.fromkeys(("", *(prompt for prompt in words if SPECIAL_TOKENS[UNK] not in prompt))))


def sample_model(folder: Path, config: GenerationConfig) -> SamplesRecord:
    """Draw samples from the model in `folder`. Without configured prompts, draw one for the empty prompt."""
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    prompts = config.prompts if config.prompts is not None else ("",)
    return SamplesRecord(samples=continue_prompts(model, tokenizer, prompts, config))


def continue_prompt(model: LanguageModel, tokenizer: TextTokenizer, prompt: str, config: GenerationConfig) -> Sample:
    """Return the model's continuation of `prompt`. The continuation is never empty.

    Unknown words are read as `<unk>`, with a warning.
    """
    return continue_prompts(model, tokenizer, (prompt,), config)[0]


def continue_prompts(
    model: LanguageModel, tokenizer: TextTokenizer, prompts: Sequence[str], config: GenerationConfig
) -> tuple[Sample, ...]:
    """Continue all prompts in one batch, each with its own seed. Empty continuations are drawn again."""
    for prompt in dict.fromkeys(prompts):
        if unknown := tokenizer.unknown_words(prompt):
            logger.warning(
                "prompt %r: these words are unknown to the model and read as <unk>: %s", prompt, ", ".join(unknown)
            )
    samples = draw(model, tokenizer, prompts, config, config.seed)
    for attempt in range(1, DRAWS if config.temperature else 1):
        empty = [index for index, sample in enumerate(samples) if not sample.text]
        if not empty:
            break
        seed = config.seed + attempt * len(prompts)
        again = draw(model, tokenizer, [prompts[index] for index in empty], config, seed)
        for index, sample in zip(empty, again, strict=True):
            samples[index] = sample
    return tuple(samples)


def draw(
    model: LanguageModel, tokenizer: TextTokenizer, prompts: Sequence[str], config: GenerationConfig, seed: int
) -> list[Sample]:
    """Draw a sample for each prompt.

    The first sample has the seed `seed`, and further samples have the following seeds.
    """
    given = Sampling(**config.model_dump(include={field.name for field in fields(Sampling)}))
    sampling = text_sampling(given, tokenizer.unk_id, unknown=config.unknown)
    samplings = [replace(sampling, seed=(seed + index) % 2**63) for index in range(len(prompts))]
    prompt_ids = [tokenizer.encode(prompt) for prompt in prompts]
    rows = [[tokenizer.bos_id, *ids] for ids in prompt_ids]
    written = continue_batch(InferenceWeights(model), rows, samplings, tokenizer.eos_id)
    return [
        Sample(
            prompt=prompt,
            text=tokenizer.decode(ids).strip(),
            whole=prompt + tokenizer.decode_after(before, ids).rstrip(),
            tokens=len(ids),
            seed=sampling.seed,
        )
        for prompt, before, ids, sampling in zip(prompts, prompt_ids, written, samplings, strict=True)
    ]
