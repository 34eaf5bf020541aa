"""The model card is correct, fits into MLflow's database, and is part of the bundle."""

import pytest

from rnnlm.models.model_factory import build_model, save_model
from rnnlm.registry.lineage import show_version
from rnnlm.registry.model_card import LONGEST_DESCRIPTION, description_of, model_card
from rnnlm.registry.model_lookup import model_folder
from rnnlm.registry.version_tags import Candidate, identity_tags, origin_tags
from rnnlm.storage.records import Sample
from tests.configs import changed, plain_model
from tests.rnnlm.registry.contest import NAME, Contest


@pytest.mark.long
def test_the_card_is_written_from_the_facts(decided: Contest) -> None:
    card = (model_folder(decided.home, f"models:/{NAME}/2") / "README.md").read_text(encoding="utf-8")
    test = decided.evaluation.scores["test"]
    for fact in (
        f"# {NAME}",
        f"sha256 `{decided.dataset.corpus_digest}`",
        f"{decided.dataset.predicted_tokens['train']:,} tokens in the training split",
        f"| test | network | {test.tokens:,} | {test.perplexity:.2f} | {test.unigram_perplexity:.2f} |",
        "1 layer of 16 units",
        f'load_model("models:/{NAME}@champion")',
        f"run `{decided.run_of('good').run_id}`",
        "## Limits",
        decided.samples.samples[0].text,
    ):
        assert fact in card, fact
    # The parameters are an embedding, two square matrices, a bias, and the head with its bias. There are 16 units.
    vocabulary = decided.dataset.vocabulary_size
    assert f"{vocabulary * 16 * 2 + vocabulary + 2 * 16 * 16 + 16:,} weights" in card
    description = show_version(decided.home, NAME, "2").description
    # The name is left out, because MLflow's page shows the name above the description.
    assert description.startswith("A language model: ")
    first, beside, rest = description.split("\n\n## ", maxsplit=2)
    # The comparison is added after the card was written, because the decision is made later.
    assert beside.startswith("Beside version 1\n")
    assert f"| test perplexity | {test.perplexity:.2f} | " in beside
    assert card.startswith(f"# {NAME}\n\n{first}\n\n## {rest[:500]}")


def card_of(contest: Contest) -> str:
    candidate = Candidate(contest.config, contest.dataset, contest.run, contest.evaluation, contest.samples)
    tags = identity_tags(candidate) | origin_tags(contest.home, contest.config, contest.dataset)
    return model_card(NAME, candidate, tags, None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"nonlinearity": "relu"}, "h' = relu(x W + h U + b), with 1 layer of 16 units over"),
        (
            {"recurrence": "diagonal", "recurrent_initialization": "spread", "layers": 3, "residual": True},
            "h' = tanh(x W + h ⊙ u + b), with 3 layers of 16 units with pre-norm residual connections",
        ),
        ({"kind": "lstm", "layers": 2}, "A language model: LSTM with 2 layers of 16 units over"),
    ],
)
def test_the_card_says_what_kind_of_network_it_is(contest: Contest, shape: dict[str, object], words: str) -> None:
    config = plain_model({"hidden_size": 16} | shape)
    model = build_model(config, contest.dataset.vocabulary_size, seed=0)
    save_model(model, contest.run.model_folder)
    assert words in card_of(contest)


@pytest.mark.long
def test_a_later_version_names_its_parent(decided: Contest) -> None:
    assert "there was no champion when it was registered" in show_version(decided.home, NAME, "1").description
    assert "champion when it was registered: version 1" in show_version(decided.home, NAME, "2").description


@pytest.mark.long
def test_the_card_names_the_teacher_of_a_distilled_network(contest: Contest) -> None:
    assert "taught by" not in card_of(contest)
    contest.config = changed(contest.config, {"training.teacher.run": "0123", "training.teacher.share": 0.3})
    assert "taught by run 0123, 30% of the loss" in card_of(contest)


@pytest.mark.long
def test_a_description_fits_the_database_and_leaves_no_fence_open(contest: Contest) -> None:
    long = Sample(prompt="", text="the cat sees .\n```\n" * 1_000, tokens=5_000)
    contest.samples = contest.samples.model_copy(update={"samples": (long,)})
    card = card_of(contest)
    description = description_of(card)
    assert len(description) <= LONGEST_DESCRIPTION
    assert description.endswith("the rest: README.md in the bundle\n")
    # The delimiter of the sample's code block is longer than any run of backticks inside.
    assert description.splitlines().count("````") == 2
    assert len(card) > 10_000
