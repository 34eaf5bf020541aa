"""A Markdown page with generated samples."""

from rnnlm.display.text_layout import markdown_code, ticks
from rnnlm.storage.records import Sample


def samples_page(samples: tuple[Sample, ...]) -> str:
    """Return each prompt with its continuation in a code block, so that `<unk>` remains visible."""
    return "\n\n".join(map(sample_block, samples)) + "\n"


def sample_block(sample: Sample) -> str:
    prompt = f"prompt: {markdown_code(sample.prompt)}" if sample.prompt else "without a prompt:"
    if not sample.text.strip():
        return f"{prompt}\n\n(the model ends the text at once)"
    fence = ticks(sample.text, 3)
    return f"{prompt}\n\n{fence}\n{sample.text}\n{fence}"
