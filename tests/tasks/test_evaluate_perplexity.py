from rnnlm.config import EvaluationConfig
from rnnlm.records import DatasetRecord, RunRecord
from tasks.evaluate_perplexity import evaluate_perplexity


def test_a_learnt_grammar_is_better_than_the_baselines(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    evaluation = evaluate_perplexity.fn(toy_dataset, toy_run, EvaluationConfig(), force=True)
    assert set(evaluation.scores) == {"valid", "test"}
    for score in evaluation.scores.values():
        assert 1 < score.perplexity < score.unigram_perplexity < score.uniform_perplexity
