from rnnlm.config import GenerationConfig
from rnnlm.records import DatasetRecord, RunRecord
from tasks.generate_samples import generate_samples


def test_a_prompt_a_sample(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    config = GenerationConfig(prompts=("the cat", "the dog sees"), maximum_tokens=5, temperature=0)
    samples = generate_samples.fn(toy_dataset, toy_run, config).samples
    assert [sample.prompt for sample in samples] == ["the cat", "the dog sees"]
    assert all(1 <= sample.tokens <= 5 for sample in samples)
