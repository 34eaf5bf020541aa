"""Samples as a page to read."""

import re

from rnnlm.records import Sample


def samples_page(samples: tuple[Sample, ...]) -> str:
    """Markdown: each prompt with its continuation, in a fence so that `<unk>` stays visible."""
    return "\n\n".join(map(block, samples)) + "\n"


def block(sample: Sample) -> str:
    prompt = f"prompt: {code(sample.prompt)}" if sample.prompt else "without a prompt:"
    if not sample.text.strip():
        return f"{prompt}\n\n(ends at once)"
    fence = ticks(sample.text, 3)
    return f"{prompt}\n\n{fence}\n{sample.text}\n{fence}"


def code(text: str) -> str:
    """Text inside a line, in a font of its own."""
    mark = ticks(text, 1)
    space = " " if "`" in text else ""  # else a backtick at either end would join the marks
    return f"{mark}{space}{text}{space}{mark}"


def ticks(text: str, at_least: int) -> str:
    """More backticks than stand together anywhere in the text: it cannot end what they begin."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(at_least, longest + 1)
