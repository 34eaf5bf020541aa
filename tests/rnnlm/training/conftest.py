"""A fixture for all tests of this folder: a process that forks training processes."""

from collections.abc import Iterator

import pytest

from tests.rnnlm.training.trainer import Trainer


@pytest.fixture(scope="package")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    trainer = Trainer(tmp_path_factory.mktemp("trainer") / "log")
    yield trainer
    trainer.close()
