"""Run the Python of the tutorial's chapters and print what each block prints.

python docs/run_tutorial.py CHAPTER…      such as elman-cell; all without one
python docs/run_tutorial.py --write       and write the output into the pages

A chapter's Python blocks run one after the other in one namespace, in an empty folder that is also the home. The block
of text after a Python block is what it prints.
"""

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CHAPTERS = Path(__file__).resolve().parent / "tutorial"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    code: str
    expected: str  # what the page says that it prints
    printed: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help=", ".join(chapter_names()))
    parser.add_argument("--write", action="store_true", help="write the output into the pages")
    options = parser.parse_args()
    for name in options.chapters or chapter_names():
        page = CHAPTERS / f"{name}.md"
        blocks = run_page(page)
        for block in blocks:
            print(f"{block.code}\n{block.printed}")
        if options.write:
            page.write_text(with_output(page.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    return 0


def chapter_names() -> list[str]:
    """Return chapters with Python blocks."""
    return sorted(page.stem for page in CHAPTERS.glob("*.md") if BLOCK.search(page.read_text(encoding="utf-8")))


def run_page(page: Path) -> list[Block]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with empty_home():
        return [
            Block(match["code"], match["output"] or "", printed_by(match["code"], page.name, namespace))
            for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
        ]


def printed_by(code: str, name: str, namespace: dict[str, Any]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, name, "exec"), namespace)
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())


@contextlib.contextmanager
def empty_home() -> Iterator[None]:
    before, home = Path.cwd(), os.environ.get("RNNLM_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["RNNLM_HOME"] = str(Path(folder) / ".rnnlm")
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.pop("RNNLM_HOME")
            if home is not None:
                os.environ["RNNLM_HOME"] = home


def with_output(text: str, blocks: list[Block]) -> str:
    """Return the page with what its blocks print."""
    rest = iter(blocks)

    def replaced(match: re.Match[str]) -> str:
        printed = next(rest).printed
        output = f"\n```text\n{printed}```\n" if printed else ""
        return f"```python\n{match['code']}```\n{output}"

    return BLOCK.sub(replaced, text)


if __name__ == "__main__":
    sys.exit(main())
