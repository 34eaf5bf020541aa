"""The provenance of a model's training text is read from the model's folder.

If a value is missing, an error names it.
"""

from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.storage.records import DatasetRecord, RunRecord


def test_a_trained_model_names_its_dataset_and_how_its_text_was_cut(
    toy_run: RunRecord, toy_dataset: DatasetRecord
) -> None:
    origin = read_training_provenance(toy_run.model_folder)
    assert (origin.dataset_id, origin.corpus_digest) == (toy_dataset.dataset_id, toy_dataset.corpus_digest)
    assert origin.cut.mode == toy_dataset.mode
