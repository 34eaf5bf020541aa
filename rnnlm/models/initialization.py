"""Initial weights. Sources: Xavier-uniform, Glorot and Bengio 2010; he, He et al. 2015."""

import torch
from torch import Tensor, nn

from rnnlm.config import ModelConfig
from rnnlm.errors import ConfigError
from rnnlm.models.block import Block
from rnnlm.models.cell import Cell
from rnnlm.models.elman import ElmanCell
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.lstm import LSTMCell
from rnnlm.models.mlstm import MLSTMCell
from rnnlm.models.slstm import SLSTMCell
from rnnlm.models.xlstm import XLSTMBlock

FORGET_BIASES = (3.0, 6.0)  # of an xLSTM, lowest and highest, as in its authors' mLSTM
EMBEDDING_STD = 0.1  # small compared with the recurrent input, so that tanh starts in its linear part


@torch.no_grad()
def initialize(
    model: LanguageModel,
    config: ModelConfig,
    generator: torch.Generator,
    log_unigram: Tensor | None = None,
) -> None:
    """Fill all parameters in place; the same generator seed gives the same weights.

    log_unigram: (V,) initial bias of the head, so that the first prediction is the unigram distribution.
    """
    embedding = model.embedding.weight
    if config.embedding_initialization == "xavier":
        nn.init.xavier_uniform_(embedding, generator=generator)
    else:
        embedding.copy_(torch.randn(embedding.shape, generator=generator) * EMBEDDING_STD)
    embedding[model.embedding.padding_idx] = 0.0
    for cell in model.stack.cells:
        if isinstance(cell, ElmanCell):
            initialize_elman(cell, config, generator)
        elif isinstance(cell, Block):
            initialize_block(cell, config, generator)
        elif own := getattr(cell, "initialize", None):  # of a layer of one's own
            own(generator)
        else:
            initialize_gates(cell, config, generator)
    for norm in model.stack.norms:
        nn.init.ones_(norm.weight)
    for matrix in model.readout.parameters():
        initialize_matrix(matrix, matrix.shape[1], config, generator)
    if model.head.weight is not embedding:
        initialize_matrix(model.head.weight, model.head.in_features, config, generator)
    model.head.bias.copy_(torch.zeros_like(model.head.bias) if log_unigram is None else log_unigram)


def initialize_matrix(matrix: Tensor, inputs: int, config: ModelConfig, generator: torch.Generator) -> None:
    if config.initialization == "he":
        matrix.copy_(torch.randn(matrix.shape, generator=generator) * (2 / inputs) ** 0.5)
    else:
        nn.init.xavier_uniform_(matrix, generator=generator)


def initialize_elman(cell: ElmanCell, config: ModelConfig, generator: torch.Generator) -> None:
    """U by config.recurrent_initialization, b 0.

    identity (Le, Jaitly and Hinton 2015), orthogonal (Saxe et al. 2014), xavier, or spread: a diagonal from 0 to 1,
    from units that forget at once to units that never do. leaky: initial_leak() times the identity. A diagonal U needs
    identity, leaky or spread.
    """
    initialize_matrix(cell.W, len(cell.W), config, generator)
    units, recurrent, is_matrix = len(cell.U), config.recurrent_initialization, cell.U.ndim == 2
    if recurrent == "xavier":
        nn.init.xavier_uniform_(cell.U, generator=generator)
    elif recurrent == "orthogonal":
        nn.init.orthogonal_(cell.U, generator=generator)
    else:
        diagonal = torch.linspace(0.0, 1.0, units) if recurrent == "spread" else torch.ones(units)
        cell.U.copy_(diagonal.diag() if is_matrix else diagonal)
    if recurrent == "leaky":
        cell.U.mul_(initial_leak(units, config.layers))
    nn.init.zeros_(cell.b)


def initial_leak(units: int, layers: int) -> float:
    """Share of its state that a layer keeps at first.

    With all of it, as from the identity, units saturate before they have learnt what to forget, in wide layers and in
    stacks sooner (benchmarks/stacks.py).
    """
    return 0.9 ** max(1.0, units / 256) if layers == 1 else 0.5


def initialize_gates(cell: Cell, config: ModelConfig, generator: torch.Generator) -> None:
    """Each gate's U orthogonal, biases 0; an LSTM's forget gate 1 (Jozefowicz et al. 2015)."""
    parameters = dict(cell.named_parameters())
    if not parameters:
        return
    if "W" not in parameters:
        raise ConfigError(
            f"model.kind={config.kind}: its weights cannot be initialized: it has no W, U and biases;\n"
            "give the class a method initialize(generator)"
        )
    for gate in parameters.pop("W").split(cell.hidden_size, dim=1):
        initialize_matrix(gate, len(gate), config, generator)
    if "U" in parameters:
        for gate in parameters.pop("U").split(cell.hidden_size, dim=1):
            nn.init.orthogonal_(gate, generator=generator)
    for bias in parameters.values():
        nn.init.zeros_(bias)
    if isinstance(cell, LSTMCell):
        cell.b.chunk(4)[1].fill_(1.0)


def initialize_block(block: Block, config: ModelConfig, generator: torch.Generator) -> None:
    """Matrices that add to the residual are divided by √(2 L), as in GPT-2 (Radford et al. 2019)."""
    for module in block.modules():
        if isinstance(module, nn.Linear):
            initialize_matrix(module.weight, module.in_features, config, generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.RMSNorm):
            nn.init.ones_(module.weight)
    for name, matrix in block.named_parameters():
        if name in ("output.weight", "cell.output.weight", "down.weight"):
            matrix.div_((2 * config.layers) ** 0.5)
    if isinstance(block, XLSTMBlock):
        initialize_memory(block.cell, config, generator)


def initialize_memory(cell: MLSTMCell | SLSTMCell, config: ModelConfig, generator: torch.Generator) -> None:
    """Biases of forget gates from 3 to 6, from heads or units that forget early to those that forget late.

    In an sLSTM, besides, each gate's W as any matrix, U orthogonal in each head, and other biases 0.
    """
    nn.init.ones_(cell.gain)
    if isinstance(cell, MLSTMCell):
        cell.forget_gate.bias.copy_(torch.linspace(*FORGET_BIASES, cell.heads))
        return
    for gate in cell.W.chunk(4, dim=1):
        initialize_matrix(gate, len(gate), config, generator)
    for head in cell.U:
        for gate in head.chunk(4, dim=1):
            nn.init.orthogonal_(gate, generator=generator)
    nn.init.zeros_(cell.b)
    cell.b.chunk(4)[1].copy_(torch.linspace(*FORGET_BIASES, cell.size).repeat(cell.heads))
