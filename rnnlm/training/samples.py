"""Samples during training: pages in the run's folder with continuations of the configured prompts."""

import logging
from functools import partial
from pathlib import Path

from rnnlm.config import GenerationConfig, PipelineConfig
from rnnlm.generation.generate import choose_prompts, continue_prompt
from rnnlm.generation.sample_page import samples_page
from rnnlm.models.language_model import LanguageModel
from rnnlm.storage.home import atomic_file
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.training.history import Tracker
from rnnlm.training.job import Job
from rnnlm.training.training_listener import RunListener

logger = logging.getLogger(__name__)


def write_samples(
    dataset: DatasetRecord, config: GenerationConfig, folder: Path, model: LanguageModel, step: int
) -> None:
    """Write samples/step-….md to the run's folder. Log a warning if the file cannot be written.

    The samples are drawn by a separate random generator, so they do not change the result of training.
    """
    tokenizer = load_tokenizer(dataset.tokenizer_folder)
    prompts = choose_prompts(dataset, tokenizer, config)
    samples = tuple(continue_prompt(model, tokenizer, prompt, config) for prompt in prompts)
    page = RunFolder(folder).samples / f"step-{step:08d}.md"
    try:
        page.parent.mkdir(exist_ok=True)
        with atomic_file(page) as unfinished:
            unfinished.write_text(samples_page(samples), encoding="utf-8")
    except OSError as error:
        logger.warning("%s: this page of samples cannot be written (%s)", page, error)


def listener_of_job(job: Job, tracker: Tracker | None = None) -> RunListener:
    """Return a listener that also writes samples, for the prompts in the configuration of the run's folder."""
    config = PipelineConfig.model_validate(RunFolder(job.folder).configuration)
    return RunListener(job.folder, tracker, partial(write_samples, job.dataset, config.generation, job.folder))
