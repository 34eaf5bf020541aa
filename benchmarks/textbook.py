"""The baseline for speed is the training step of a textbook's chapter on recurrent models, as in a notebook.

It has a loop over cells in Python, batch-first tensors, all logits in float32, CrossEntropyLoss that ignores padding,
and plain AdamW.
"""

import torch
from torch import Tensor, nn


class TextbookCell(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(size, size))
        self.U = nn.Parameter(torch.empty(size, size))
        self.b = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(x @ self.W + h @ self.U + self.b)


class TextbookLanguageModel(nn.Module):
    """The model of the textbook. It maps token_ids of shape (b, t) to logits of shape (b, t, V).

    Each sequence starts from a state of zeros.
    """

    def __init__(self, vocabulary_size: int, size: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, size, padding_idx=0)
        self.cells = nn.ModuleList(TextbookCell(size) for _ in range(layers))
        self.head = nn.Linear(size, vocabulary_size)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, token_ids: Tensor) -> Tensor:
        embedded = self.embedding(token_ids)
        hidden = [embedded.new_zeros(len(token_ids), cell.b.shape[0]) for cell in self.cells]
        outputs = []
        for time in range(token_ids.shape[1]):
            below = embedded[:, time]
            for layer, cell in enumerate(self.cells):
                below = hidden[layer] = cell(below, hidden[layer])
            outputs.append(below)
        return self.head(torch.stack(outputs, dim=1))


class TextbookTrainer:
    def __init__(self, model: nn.Module, learning_rate: float = 0.001) -> None:
        self.model = model
        self.criterion = nn.CrossEntropyLoss(ignore_index=0)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)

    def step(self, input_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Take one step, and return the loss in nats per predicted token.

        Both arguments have the shape (b, t) and dtype int64.
        """
        self.optimizer.zero_grad()
        logits = self.model(input_ids)
        loss = self.criterion(logits.view(-1, logits.shape[-1]), target_ids.reshape(-1))
        loss.backward()
        self.optimizer.step()
        return loss.detach()
