"""What test_launcher.py runs in each of two processes: python ranks.py WHAT FOLDER."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import psutil

from rnnlm.errors import ConfigError
from rnnlm.training.distributed.worker import worker_process
from tests.configs import new_model, plain_model


def compare(folder: Path, rank: int) -> None:
    """The same two steps in two processes and in this one alone: how far loss, norm, weights and state are apart."""
    import numpy as np
    import torch

    from rnnlm.config import OptimizerConfig
    from rnnlm.losses.loss import Loss, exact_cross_entropy
    from rnnlm.losses.sampled_softmax import SampledCrossEntropy
    from rnnlm.models.dropout import Dropout
    from rnnlm.models.initialization import initialize
    from rnnlm.sequences.batches import Batch
    from rnnlm.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup, join_process_group
    from rnnlm.training.optimizer_step import NO_DROPOUT, BatchLoss, Updater, take_step
    from rnnlm.training.optimizers import make_optimizer
    from rnnlm.training.seeding import step_generator

    def steps(
        name: str, loss: Loss, rows: int, accumulation: int, dropout: Dropout, process_group: ProcessGroup
    ) -> list[torch.Tensor]:
        model = new_model(40, 8, layers=2, residual=True, tie_embeddings=True)
        initialize(model, plain_model({"recurrent_initialization": "xavier"}), torch.Generator().manual_seed(0))
        model.double()
        optimizer = make_optimizer(model, OptimizerConfig())
        if name == "by rows":
            model.embedding.sparse = process_group.size == 1
            optimizer.by_rows = (model.embedding.weight,)
        batch_loss = process_group.data_parallel(BatchLoss(model, loss, dropout))
        updater = Updater(batch_loss, optimizer, 0.5, process_group)
        ids = torch.from_numpy(np.random.default_rng(0).integers(3, 40, (rows, 11)))
        ids[0, 3:6] = 0  # padding
        state, losses, norms = None, [], []
        for number, columns in enumerate((slice(0, 6), slice(5, 11))):
            text = ids[:, columns]
            whole = Batch(text[:, :-1], text[:, 1:], number > 0, int(text[:, 1:].ne(0).sum()))
            mine, generator = whole.share(process_group.rank, process_group.size), step_generator(0, number)
            taken = take_step(updater, mine, state, generator, accumulation)
            state = taken.state
            losses.append(taken.loss)
            norms.append(taken.norm)
        weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        assert state is not None
        return [torch.stack(losses), torch.stack(norms), weights, process_group.gather_rows(state.detach())]

    sampled = SampledCrossEntropy(np.r_[[0, 0, 0], np.ones(37)], 12, torch.float64)
    masked = Dropout(words=0.3, inputs=0.3, layers=0.3, outputs=0.3, recurrent=0.5)
    cases: dict[str, tuple[Loss, int, int, Dropout]] = {
        "exact": (exact_cross_entropy, 5, 1, NO_DROPOUT),
        "sampled": (sampled, 5, 1, NO_DROPOUT),
        "one row": (exact_cross_entropy, 1, 1, NO_DROPOUT),  # process 1 has none
        "accumulated": (sampled, 7, 3, NO_DROPOUT),
        "masked": (sampled, 7, 3, masked),
        "by rows": (sampled, 7, 1, NO_DROPOUT),
    }
    with join_process_group(torch.device("cpu")) as process_group:
        found: dict[str, object] = {
            name: [
                float((many - one).abs().max())
                for many, one in zip(steps(name, *case, process_group), steps(name, *case, SINGLE_PROCESS), strict=True)
            ]
            for name, case in cases.items()
        }
        mine = torch.arange(5)[process_group.rank :: process_group.size, None]
        found["listening"] = [address for pid in (os.getpid(), os.getppid()) for address in listening(pid)]
        found |= {
            "largest": process_group.max((3, 7)[rank]),
            "rows": process_group.gather_rows(mine)[:, 0].tolist(),
            "is_main": process_group.is_main,
        }
    (folder / f"rank-{rank}.json").write_text(json.dumps(found))


def listening(pid: int) -> list[str]:
    """Addresses at which a process accepts connections."""
    connections = psutil.Process(pid).net_connections("inet")
    return [connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN]


def sleep(folder: Path, rank: int) -> None:
    def note(number: int, frame: FrameType | None) -> None:
        (folder / f"terminated-{rank}").touch()
        sys.exit(0)

    signal.signal(signal.SIGTERM, note)
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    time.sleep(600)


def main(what: str, folder: Path) -> None:
    rank = int(os.environ["RANK"])
    if what != "sleep":
        (folder / f"pid-{rank}").write_text(str(os.getpid()))
    (folder / "torchrun").write_text(str(os.getppid()))
    with (folder / f"starts-{rank}").open("a") as starts:
        starts.write("x")
    with worker_process(folder):
        if what == "compare":
            compare(folder, rank)
        elif what == "sleep":
            sleep(folder, rank)
        elif what == "refuse":
            raise ConfigError("training.seed: expected another one")
        elif what == "stumble" and rank == 1:
            print(1 / 0)
        elif what == "die" and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
