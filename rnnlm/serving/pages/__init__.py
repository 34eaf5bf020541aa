"""What a browser gets. Nothing on these pages comes from elsewhere: they work offline."""

from functools import cache
from pathlib import Path

# Scripts from here alone, and none inside a page: text that a model or a user wrote can never become one.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def page(name: str) -> bytes:
    """A file of this folder."""
    return (Path(__file__).parent / name).read_bytes()
