"""A gated network and an attention model pass through all stages, from the text to a service."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.command_line import main
from flows.operations.flow_runner import run_flow
from flows.pipeline_flow import pipeline_flow
from rnnlm.config import GenerationConfig, ModelKind
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.extensions.serving.model_loader import resolve_reference
from rnnlm.generation.generate import continue_prompt
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.storage.home import Home
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from tests.configs import changed
from tests.rnnlm.extensions.serving.live_server import LiveServer
from tests.rnnlm.registry.contest import contest_config, write_contest_corpus

TEXT = "the cat sees the zebra near the river .\nthe bird likes the fox .\n"


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
@pytest.mark.long
def test_a_better_model_is_promoted_and_served_and_scores_texts(
    kind: ModelKind, tracked_home: Home, tmp_path: Path, prefect_server: None
) -> None:
    """A better model becomes champion, is served, and scores texts.

    The first model is worse than the second, because it is trained on only one or two batches.
    """
    write_contest_corpus(tmp_path / "corpus")
    settings = {"model.kind": kind, "model.layers": 2, "training.optimizer.learning_rate": 0.01}
    config = changed(contest_config(tmp_path / "corpus"), settings)
    poor = run_flow(tracked_home, pipeline_flow, config=changed(config, {"training.maximum_tokens": 300}))
    assert (poor.registered.version, poor.registered.alias) == (1, "champion")
    good = run_flow(tracked_home, pipeline_flow, config=config)
    assert (good.registered.version, good.registered.alias) == (2, "champion")
    assert good.registered.reason.startswith("better: ")

    folder = good.run.model_folder
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    assert model.config["kind"] == kind
    with LiveServer(resolve_reference(tracked_home, good.registered.uri)) as live:
        request = {"prompt": "the cat", "temperature": 0.0, "maximum_tokens": 9}
        written = live.client.post("/generate", json=request).json()
        scored = live.client.post("/score", json={"text": TEXT}).json()
    assert written["model"] == scored["model"] == f"models:/{good.registered.name}/2"
    generation = GenerationConfig(temperature=0.0, maximum_tokens=9)
    assert written["text"] == continue_prompt(model, tokenizer, "the cat", generation).text
    (loss,) = document_losses(model, tokenizer, [TEXT], read_training_provenance(folder).cut)
    assert scored["bits_per_byte"] == pytest.approx(loss.bits_per_byte, rel=1e-5)

    (tmp_path / "texts.txt").write_text(TEXT, encoding="utf-8")
    output = tmp_path / "scores.parquet"
    arguments = ["--input", str(tmp_path / "texts.txt"), "--output", str(output), "--model", good.registered.uri]
    assert main(["score", *arguments]) == 0
    nats = [row["log_probability"] for row in pq.read_table(output).to_pylist()]
    assert len(nats) == 2  # Each of the two lines is a document.
    assert -sum(nats) == pytest.approx(loss.summed_nll_nats, rel=1e-5)
