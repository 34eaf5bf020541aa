"""The library, which turns text into a trained, evaluated and registered recurrent language model.

It does not use Prefect.

    import rnnlm

    model = rnnlm.train("my-text.txt", minutes=1)
    model = rnnlm.load("rnnlm-my-text")

Importing rnnlm imports neither torch nor MLflow. They are imported when rnnlm.train or rnnlm.load is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rnnlm.python_interface import load, train
    from rnnlm.trained_model import Model

__all__ = ["Model", "load", "train"]

MODULES_OF_NAMES = {
    "Model": "rnnlm.trained_model",
    "load": "rnnlm.python_interface",
    "train": "rnnlm.python_interface",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES_OF_NAMES:
        raise AttributeError(f"module 'rnnlm' has no attribute {name!r}")
    return getattr(importlib.import_module(MODULES_OF_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
