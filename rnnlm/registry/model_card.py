"""The model card of a version, which is written from recorded metadata."""

import math
import textwrap
from pathlib import Path

from rnnlm.config import ModelConfig
from rnnlm.config.kinds import kind_of
from rnnlm.display.text_layout import markdown_code, markdown_table, markdown_text, visible
from rnnlm.evaluation.score_tables import score_rows
from rnnlm.generation.sample_page import samples_page
from rnnlm.models.count_model import FILE as COUNTS
from rnnlm.models.mixture import used_counts
from rnnlm.registry.decision_text import difference_in_words
from rnnlm.registry.version_tags import Candidate
from rnnlm.storage.home import read_json
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import Evidence, ListedVersion

# The beginning of the heading above a version's comparison with the champion.
COMPARISON = "## Beside version"
LONGEST_DESCRIPTION = 5_000  # The largest number of characters in the description column of MLflow's database.
LONGEST_LINE = 76  # The maximum length of a line of code in a description. MLflow's page truncates longer lines.


CARD = """# {name}

{summary}

## What it was trained on

- corpus `{dataset.corpus_name}`, {corpus_bytes:,} bytes, sha256 `{dataset.corpus_digest}`
- source {source}; licence: {licence}
- tokenizer {tokenizer}, read in `{dataset.mode}` mode, dataset `{dataset.dataset_id}`
- {dataset.predicted_tokens[train]:,} tokens in the training split; {run.trained_tokens:,} were trained on, \
repetitions counted

## How it scores

{scores}

The rows `{model}` are this model. Network: without counts. Counts: Kneser-Ney n-grams of its training text; mixed: \
both, with shares fitted on the validation split. Unigram: every token predicted by its frequency in training; \
uniform: all tokens equally likely. Do not compare these perplexities with those of other corpora or tokenizers; bits \
per byte of the same text compare.

## Limits

{limits}

## How to load it

With mlflow, torch, tokenizers and safetensors installed (this project is not needed):

```python
import mlflow

mlflow.set_tracking_uri("…")  # of the store that holds this version
# or models:/{name}/NUMBER
model = mlflow.pyfunc.load_model("models:/{name}@champion")
print(model.predict([{{"prompt": "…", "temperature": 0.8, "seed": 1}}]))
```

## Where it comes from

{provenance}

## Samples

{samples}
"""


def model_card(name: str, candidate: Candidate, tags: dict[str, str], parent: int | None) -> str:
    """Return the card of a version in Markdown.

    Args:
        name: The name of the registered model.
        candidate: The run that the version was registered from.
        tags: The version's tags.
        parent: The number of the version that was champion at the registration.
    """
    dataset, run, config = candidate.dataset, candidate.run, candidate.config
    test = candidate.evaluation.scores["test"]
    limits = [
        f"It continues text of the kind it was trained on (`{dataset.corpus_name}`), including what is wrong or unfair "
        "in that text. It knows no facts, follows no instructions and answers no questions.",
        memory_limit(config.model),
    ]
    if dataset.mode == "sentence":
        limits.append(
            f"It was trained on single lines of at most {config.sequences.context_length} tokens: nothing carries over "
            "from one line to the next."
        )
    if test.unknown_rate:
        limits.append(
            f"{test.unknown_rate:.2%} of the test split's tokens are words it cannot spell; it reads and writes them "
            "as `<unk>`."
        )
    if config.corpus.lowercase or config.corpus.digits is not None:
        limits.append("Its text was cleaned (lower case, digits): clean prompts in the same way.")
    commit = f", commit `{tags['git_commit']}`" if "git_commit" in tags else ""
    champion = "there was no champion when it was registered"
    provenance = [
        f"run `{run.run_id}`, weights sha256 `{tags['model_sha256']}`",
        *([f"training continued from {run.started_from}"] if run.started_from else []),
        *(f"{name} {fact}" for _, section in config.sections() for name, fact in section.facts().items()),
        *(f"network of run `{member.run_id}`, share {member.share:.2f}" for member in run.members),
        f"rnnlm {tags['code_version']}{commit}; the whole configuration: evidence/configuration.json",
        f"champion when it was registered: version {parent}" if parent else champion,
        *(f"processes from step {change.step:,} on: {change.processes}" for change in run.process_changes),
    ]
    return CARD.format(
        name=name,
        summary=network_summary(run, dataset),
        dataset=dataset,
        run=run,
        corpus_bytes=int(tags.get("corpus_bytes", "0")),
        source=markdown_code(tags.get("corpus_source", "unknown")),
        licence=markdown_text(visible(tags.get("corpus_licence", "not stated"))),
        tokenizer=markdown_code(tags.get("tokenizer", "unknown")),
        model=test.model,
        scores=markdown_table(score_rows(candidate.evaluation)),
        limits="\n".join(f"- {limit}" for limit in limits),
        provenance="\n".join(f"- {fact}" for fact in provenance),
        samples=samples_page(candidate.samples.samples).strip(),
    )


def memory_limit(model: ModelConfig) -> str:
    if not model.has_network:
        return f"It reads only the {model.counts - 1} tokens before each one."
    if model.kind == "transformer":
        return f"Each layer reads at most {model.attention_window:,} tokens back."
    return "Its memory is a state of fixed size: it has mostly forgotten what was said some dozens of tokens ago."


def comparison_with(parent: ListedVersion, candidate: Candidate, evidence: Evidence | None) -> str:
    """Return the beginning of a version's page in Markdown, which compares its scores with those of the champion.

    The paired difference comes first. The difference of the two scores is shown only if both models were scored on the
    same text and tokens.
    """
    test, valid = candidate.evaluation.scores["test"], candidate.evaluation.scores["valid"]
    same_dataset = parent.dataset_id == candidate.dataset.dataset_id
    rows = [
        ("test perplexity", test.perplexity, parent.test_perplexity, ".2f"),
        ("test bits per byte", test.bits_per_byte, parent.bits_per_byte, ".3f"),
        ("validation perplexity", valid.perplexity, parent.validation_perplexity, ".2f"),
    ]
    table = [
        {
            "": name,
            "this version": f"{ours:{digits}}",
            f"version {parent.version}": "" if theirs is None else f"{theirs:{digits}}",
            "change": f"{ours / theirs - 1:+.1%}" if theirs is not None and same_dataset else "",
        }
        for name, ours, theirs, digits in rows
    ]
    paired = f"{difference_in_words(evidence)}, on lines that neither has read.\n\n" if evidence else ""
    return f"{COMPARISON} {parent.version}\n\n{paired[:1].upper()}{paired[1:]}{markdown_table(table)}"


def description_of(card: str, comparison: str = "") -> str:
    """Return the model card as MLflow's description.

    The title is removed, because the page shows the name. Long code lines are wrapped, and the text is shortened to the
    database's limit. `comparison` is the result of comparison_with(), and is inserted after the first paragraph.
    """
    first, _, others = (card.partition("\n\n")[2] if card.startswith("# ") else card).partition("\n\n")
    rest = "\n\n… the rest: README.md in the bundle\n"
    shown, beginning, fence = "", "", ""
    for line in "\n\n".join(filter(None, [first, comparison, others])).splitlines():
        lines = [line]
        if fence and line != fence:
            lines = textwrap.wrap(line, LONGEST_LINE, break_on_hyphens=False) or lines
        elif fence or line.startswith("```"):
            fence = "" if fence else "`" * (len(line) - len(line.lstrip("`")))
        shown += "\n".join([*lines, ""])
        if len(f"{shown}{fence}{rest}") <= LONGEST_DESCRIPTION:
            beginning = f"{shown}{fence}".rstrip("\n")
    return shown if len(shown) <= LONGEST_DESCRIPTION else beginning + rest


def network_summary(run: RunRecord, dataset: DatasetRecord) -> str:
    facts = read_json(run.model_folder / "config.json") or {}
    layers, kind = facts.get("num_hidden_layers", 1), facts.get("kind", "elman")
    counts = counts_summary(run.model_folder)
    if run.members:
        shapes = "; ".join(f"{member.share:.2f} {member.shape}" for member in run.members)
        return (
            f"A language model: the weighted mean of the probabilities of {len(run.members)} networks ({shapes}) over "
            f"a vocabulary of {dataset.vocabulary_size:,}; {weight_count(run.model_folder):,} weights"
            f"{', mixed with ' if counts else ''}{counts}."
        )
    if not kind_of(kind).is_trained:
        return f"A language model: {counts} over a vocabulary of {dataset.vocabulary_size:,}."
    activated = f"{facts.get('nonlinearity', 'tanh')}(x W + {'h ⊙ u' if facts.get('diagonal') else 'h U'} + b)"
    name = kind_of(kind).name
    name = f"{name}, h' = {activated}," if kind == "elman" else name
    residual = " with pre-norm residual connections" if facts.get("residual") else ""
    return (
        f"A language model: {name} with {layers} "
        f"{'layer' if layers == 1 else 'layers'} of {facts.get('hidden_size')} units{residual} over a vocabulary of "
        f"{dataset.vocabulary_size:,}; {weight_count(run.model_folder):,} weights"
        f"{', mixed with ' if counts else ''}{counts}."
    )


def counts_summary(folder: Path) -> str:
    """Return a description of the n-gram model from the header of its file, or "" if there is no n-gram model."""
    from safetensors import safe_open

    if not used_counts(folder):
        return ""
    with safe_open(folder / COUNTS, framework="numpy") as file:
        sizes = [file.get_slice(name).get_shape()[0] for name in file.keys() if name.endswith(".words")]  # noqa: SIM118
    return f"Kneser-Ney {len(sizes)}-grams ({sum(sizes):,} stored counts)"


def weight_count(folder: Path) -> int:
    """Return the number of weights, read from the header of the safetensors file."""
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", framework="numpy") as weights:
        return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
