"""Measure how long it takes to write and read a checkpoint, and how large it is, for models of two sizes.

    .venv/bin/python benchmarks/checkpoint.py FOLDER

The checkpoints are written to FOLDER and then removed. A checkpoint contains the weights, AdamW's two moments and the
best weights so far. Writing includes computing the sha256 of every file and syncing to the disk. Reading includes
checking the sha256.
"""

import argparse
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from prepare import row, table

from rnnlm.config import ModelConfig
from rnnlm.models.model_factory import build_model
from rnnlm.training.checkpointing.checkpoints import read_checkpoint, write_checkpoint

# Each pair is a hidden size and a vocabulary size. The models have about 5 and 100 million parameters.
SIZES = ((390, 6_000), (1_500, 32_000))
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    table(["parameters, millions", "MB", "seconds to write", "seconds to read"])
    for hidden_size, vocabulary_size in SIZES:
        config = ModelConfig(hidden_size=hidden_size, embedding_size=hidden_size)
        weights = build_model(config, vocabulary_size, seed=0).state_dict()
        copies = [{name: tensor.clone() for name, tensor in weights.items()} for _ in range(3)]
        state = {"model": weights, "moments": copies[:2], "best": copies[2]}
        parameters = sum(tensor.numel() for tensor in weights.values())
        with TemporaryDirectory(dir=folder) as checkpoints:
            write, read = [], []
            for step in range(ROUNDS):
                path = Path(checkpoints) / "checkpoints" / f"step-{step:08d}"
                start = time.perf_counter()
                write_checkpoint(path, step, state)
                written = time.perf_counter()
                found = read_checkpoint(path)
                write.append(written - start)
                read.append(time.perf_counter() - written)
                assert all(torch.equal(found["model"][name], tensor) for name, tensor in weights.items())
            size = sum(file.stat().st_size for file in path.iterdir())
        row(f"{parameters / 1e6:.1f}", f"{size / 1e6:.0f}", f"{median(write):.2f}", f"{median(read):.2f}")


if __name__ == "__main__":
    main()
