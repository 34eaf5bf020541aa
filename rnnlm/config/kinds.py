"""Every kind of model: its layer, and what is known of it before torch is imported. Part of every bundle.

A kind is added by a line in KINDS and a module with its layer. A custom layer needs no line: `model.kind` may
name a class of any importable module, as `package.module:Class`. It is a Cell (cell.py) that takes its input's size and
its own.
"""

import re
import sys
from importlib import import_module
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """A kind of model.

    cell: module:Class, relative to `models`. settings: what the class takes of config.json after its sizes.
    """

    name: str  # for people
    cell: str
    settings: tuple[str, ...] = ()
    has_recurrent_matrix: bool = False  # weights that multiply its state, for recurrent dropout
    may_be_residual: bool = False  # the stack can add its output to its input (stack.py)
    units_per_head: int = 0  # hidden_size is a multiple of this times heads; 0: it has no heads
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
MEMBERS = "members"  # in config.json of an ensemble (ensemble.py): the configurations of its networks
OWN_KIND = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # package.module:Class
OWN_MODULES = "own_cells"  # folder of a bundle, beside this package's, with the modules of such classes


def kind_of(name: str) -> Kind:
    """Raise ValueError if there is no such kind."""
    if OWN_KIND.fullmatch(name):
        return Kind(name.partition(":")[2], name, has_recurrent_matrix=True)
    if name not in KINDS:
        raise ValueError(f"unknown kind of model: {name}")
    return KINDS[name]


def cell_class(kind: Kind) -> Any:
    """Return the kind's cell, usually a class. ImportError or AttributeError if it is missing.

    A module of one's own is taken from the modules that are already imported. Importing it runs it, and a folder from
    elsewhere must not choose what runs here: models/own_layers.py imports it for those who may.
    """
    module, _, name = kind.cell.partition(":")
    root = (__package__ or "").rpartition(".")[0]
    if module.startswith("."):
        return getattr(import_module(f"{root}.models{module}"), name)
    if root != "rnnlm":  # in a bundle
        return getattr(import_module(f"{root}.{OWN_MODULES}.{own_module_name(module)}"), name)
    if module not in sys.modules:
        raise ImportError(f"{kind.cell} is code that nobody here has imported")
    # Not getattr: a module may import others when it is asked for a name.
    if name not in vars(sys.modules[module]):
        raise AttributeError(f"module {module} has no {name}")
    return vars(sys.modules[module])[name]


def own_module_name(module: str) -> str:
    """Return the file's name, without suffix, of a custom layer's module in a bundle."""
    return module.replace(".", "_")
