"""The service's web pages. They load nothing from other hosts and work offline."""

from functools import cache
from pathlib import Path

# Scripts only from this host and none inline: text written by a model or a user cannot become a script.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def page(name: str) -> bytes:
    """A file of this folder."""
    return (Path(__file__).parent / name).read_bytes()
