"""Format samples as markdown."""

import re

from rnnlm.storage.records import Sample


def samples_page(samples: tuple[Sample, ...]) -> str:
    """Each prompt with its continuation, in a fence so that `<unk>` stays visible."""
    return "\n\n".join(map(sample_block, samples)) + "\n"


def sample_block(sample: Sample) -> str:
    prompt = f"prompt: {code(sample.prompt)}" if sample.prompt else "without a prompt:"
    if not sample.text.strip():
        return f"{prompt}\n\n(ends at once)"
    fence = ticks(sample.text, 3)
    return f"{prompt}\n\n{fence}\n{sample.text}\n{fence}"


def code(text: str) -> str:
    """An inline code span."""
    mark = ticks(text, 1)
    space = " " if "`" in text else ""  # otherwise a backtick at either end would join the marks
    return f"{mark}{space}{text}{space}{mark}"


def ticks(text: str, at_least: int) -> str:
    """A run of backticks longer than any in the text, so that the text cannot end the code."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(at_least, longest + 1)
