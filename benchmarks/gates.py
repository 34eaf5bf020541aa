"""Measure what the data gates report for real and for damaged texts. Their thresholds are based on these results.

    .venv/bin/python benchmarks/gates.py ../shared/data

FOLDER has brown.txt (one sentence per line), ptb/train.txt and tinyshakespeare.txt. Each row compares a text with the
text of a champion. The damaged texts are created from the second half of Brown and compared with the first half. A
second table shows the measurements that need no champion, for each corpus, with the default tokenizer and with 8,000
words.
"""

import base64
import random
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from rnnlm.config.presets import build_config
from rnnlm.corpora.character_profile import character_distance, count_characters
from rnnlm.display.text_layout import columns
from rnnlm.evaluation.training_overlap import copied_shares
from rnnlm.registry.data_gates import measured_copies, unknown_share
from rnnlm.sequences.dataset_report import describe_dataset
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home


def main(folder: Annotated[Path, typer.Argument(metavar="FOLDER", exists=True)]) -> None:
    brown = (folder / "brown.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    middle = len(brown) // 2
    first, second = "".join(brown[:middle]), "".join(brown[middle:])
    shuffled = random.Random(0).sample(brown, len(brown))
    ptb = (folder / "ptb" / "train.txt").read_text(encoding="utf-8")
    shakespeare = (folder / "tinyshakespeare.txt").read_text(encoding="utf-8")
    pairs = {
        "Brown, lines dealt into two halves": ("".join(shuffled[:middle]), "".join(shuffled[middle:])),
        "Brown, 20 kB dealt beside the rest": ("".join(shuffled[200:]), "".join(shuffled[:200])),
        "Brown, first and second half (other genres)": (first, second),
        "Brown, first half and 20 kB of the second": (first, second[:20_000]),
        "Brown, second half with a tenth of Shakespeare": (first, second + shakespeare[: len(second) // 10]),
        "Brown and Tiny Shakespeare": (first, shakespeare),
        "Brown and PTB (lower case, N for numbers)": (first, ptb),
        "Brown, half of it upper case": (first, second[: len(second) // 2] + second[len(second) // 2 :].upper()),
        "Brown, all upper case": (first, second.upper()),
        "Brown, a tenth of it base64": (first, second + encoded(second[: len(second) // 10])),
        "Brown, half of it base64": (first, second[: len(second) // 2] + encoded(second[len(second) // 2 :])),
        "Brown as hexadecimal digits": (first, second.encode().hex()),
        "Brown in UTF-16 read as Latin-1": (first, second.encode("utf-16").decode("latin-1")),
        "Brown in Cyrillic letters": (first, second.translate(cyrillic())),
    }
    with tempfile.TemporaryDirectory() as temporary:
        rows = [{"texts": name, "distance": f"{distance(Path(temporary), *pair):.3f}"} for name, pair in pairs.items()]
        print("\n".join(columns(rows)))
        shares = [
            {"corpus": name, "tokenizer": kind} | measured(Home(Path(temporary) / "home"), folder / name, kind)
            for name in ("brown.txt", "ptb", "tinyshakespeare.txt")
            for kind in ("bpe", "word")
        ]
    print("\n" + "\n".join(columns(shares)))


def measured(home: Home, source: Path, kind: str) -> dict[str, str]:
    config = build_config("default", [f"tokenizer.kind={kind}", "sequences.processes=1"], str(source))
    dataset = prepare_dataset(home, config)
    description = describe_dataset(home, dataset)[0]
    copies = {gate: share for gate, (share, _) in measured_copies(description, copied_shares(home, dataset)).items()}
    return {gate: f"{share:.1%}" for gate, share in ({"unknown": unknown_share(description)} | copies).items()}


def distance(folder: Path, champion: str, text: str) -> float:
    profiles = []
    for number, content in enumerate((champion, text)):
        path = folder / f"{number}.txt"
        path.write_text(content, encoding="utf-8")
        profiles.append(count_characters(path))
    return character_distance(*profiles)


def encoded(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()


def cyrillic() -> dict[int, int]:
    """Return a map from each Latin letter to a Cyrillic letter."""
    small = {ord("a") + number: ord("а") + number for number in range(26)}
    return small | {letter - 32: target - 32 for letter, target in small.items()}


if __name__ == "__main__":
    typer.run(main)
