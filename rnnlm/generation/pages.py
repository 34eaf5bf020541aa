"""Samples as a page to read."""

from rnnlm.records import Sample


def samples_page(samples: tuple[Sample, ...]) -> str:
    """Markdown: each prompt with its continuation, in a fence so that `<unk>` stays visible."""
    blocks = [f"prompt: `{sample.prompt}`\n\n```\n{sample.text}\n```" for sample in samples]
    return "\n\n".join(blocks) + "\n"
