"""Write two texts from files on this machine for benchmarks/corpora.py: code.txt and manual.txt.

python benchmarks/own_texts.py FOLDER

code.txt has modules of Python's standard library, without its tests. manual.txt has pages of sections 1, 5, 7 and 8 of
the manual, formatted by `man`. Pages of gcloud are left out, because they repeat each other. Each text ends after 4.5
MB.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

BYTES = 4_500_000


def code() -> Iterator[str]:
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if not {"test", "tests", "idle_test", "site-packages"} & set(path.parts):
            yield path.read_text(errors="replace")


def manual() -> Iterator[str]:
    for section in (1, 5, 7, 8):
        for path in sorted(Path(f"/usr/share/man/man{section}").glob("[!g]*.gz")):
            formatted = subprocess.run(
                ["man", "-P", "cat", str(path)],
                env=os.environ | {"MANWIDTH": "1000", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"},
                capture_output=True,
                text=True,
            )
            yield formatted.stdout


def write(path: Path, texts: Iterable[str]) -> None:
    size = 0
    # Texts that were already written. A manual page with several names is written only once.
    seen: set[str] = set()
    with path.open("w") as file:
        for text in texts:
            if text in seen:
                continue
            seen.add(text)
            for line in text.splitlines():
                kept = line.rstrip()
                if kept:
                    size += file.write(kept + "\n")
            if size > BYTES:
                return


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in (("code", code()), ("manual", manual())):
        write(folder / f"{name}.txt", texts)
        print(f"{folder / name}.txt: {(folder / f'{name}.txt').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
