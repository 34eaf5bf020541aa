"""All kinds of models, with the classes of their layers and their properties. Reading them does not import torch.

A new kind needs a line in KINDS and a module with its layer. A custom layer needs no line, because `model.kind` may be
the name of a class in any importable module, as `package.module:Class`. The class is a Cell (cell.py) whose constructor
takes the sizes of its input and of its output. The module is copied into every bundle.
"""

import re
import sys
from importlib import import_module
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """A kind of model.

    `cell` is module:Class, relative to `models`. The constructor of the class takes the sizes and the entries of
    config.json that are named in `settings`.
    """

    name: str  # The name of the kind in messages and reports.
    cell: str
    settings: tuple[str, ...] = ()
    # True if the layer has weights that multiply its state. Recurrent dropout applies to these weights.
    has_recurrent_matrix: bool = False
    may_be_residual: bool = False  # True if the stack can add a layer's output to its input (stack.py).
    # hidden_size must be a multiple of this number times the number of heads. 0 means that the kind has no heads.
    units_per_head: int = 0
    is_trained: bool = True


KINDS = {
    "elman": Kind(
        "Elman network",
        ".elman:ElmanCell",
        ("nonlinearity", "diagonal"),
        has_recurrent_matrix=True,
        may_be_residual=True,
    ),
    "feed-forward": Kind("Feed-forward network", ".feed_forward:FeedForwardCell"),
    "gru": Kind("GRU", ".gru:GRUCell", has_recurrent_matrix=True),
    "ind-rnn": Kind("IndRNN", ".ind_rnn:IndRNNCell", has_recurrent_matrix=True, may_be_residual=True),
    "lstm": Kind("LSTM", ".lstm:LSTMCell", has_recurrent_matrix=True),
    "min-gru": Kind("minGRU", ".min_gru:MinGRUCell"),
    "min-lstm": Kind("minLSTM", ".min_lstm:MinLSTMCell"),
    "transformer": Kind(
        "Transformer", ".transformer:TransformerBlock", ("heads", "attention_window"), units_per_head=2
    ),
    "xlstm": Kind("xLSTM", ".xlstm:XLSTMBlock", ("heads", "layer"), has_recurrent_matrix=True, units_per_head=1),
    "kneser-ney": Kind("Kneser-Ney n-grams", ".no_layer:NoLayer", is_trained=False),
}
NETWORKS = tuple(name for name, kind in KINDS.items() if kind.is_trained)
MEMBERS = "members"  # The key in an ensemble's config.json for the configurations of its networks.
# The pattern of a custom layer's name, which has the form package.module:Class.
OWN_KIND = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
OWN_MODULES = "own_cells"  # The folder in a bundle, next to this package's folder, with the modules of custom layers.


def kind_of(name: str) -> Kind:
    """Return the kind with this name. Raise ValueError if there is no such kind."""
    if OWN_KIND.fullmatch(name):
        return Kind(name.partition(":")[2], name, has_recurrent_matrix=True)
    if name not in KINDS:
        raise ValueError(f"unknown kind of model: {name}")
    return KINDS[name]


def cell_class(kind: Kind) -> Any:
    """Return the cell of the kind, which is usually a class. Raise ImportError or AttributeError if it does not exist.

    The module of a custom layer must already be imported. It is not imported here, because importing executes its code,
    and a model's folder may come from an untrusted source. models/own_layers.py imports modules if this is permitted.
    """
    module, _, name = kind.cell.partition(":")
    root = (__package__ or "").rpartition(".")[0]
    if module.startswith("."):
        return getattr(import_module(f"{root}.models{module}"), name)
    if root != "rnnlm":  # In a bundle, this package has another name.
        return getattr(import_module(f"{root}.{OWN_MODULES}.{own_module_name(module)}"), name)
    if module not in sys.modules:
        raise ImportError(f"the module of {kind.cell} has not been imported here")
    # getattr is not used, because a module's __getattr__ might import other modules.
    if name not in vars(sys.modules[module]):
        raise AttributeError(f"module {module} has no {name}")
    return vars(sys.modules[module])[name]


def own_module_name(module: str) -> str:
    """Return the file name, without suffix, of a custom layer's module in a bundle."""
    return module.replace(".", "_")
