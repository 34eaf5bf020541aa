"""Redaction of secrets in URLs before they are shown or stored."""

import re

HIDDEN = "***"
ADDRESS = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*://[^\s'"<>`]+""")
CREDENTIALS = re.compile(r"://[^/?#]*@")
VALUE = re.compile(r"=[^&;#]*")


def redacted(text: str) -> str:
    """Return the text, in which `***` replaces the credentials, query values and fragments of all URLs.

    All query values are hidden, because any of them may be a signature. The names of query parameters are kept.
    """
    return ADDRESS.sub(lambda match: redacted_address(match[0]), text)


def redacted_address(address: str) -> str:
    address, _, fragment = CREDENTIALS.sub(f"://{HIDDEN}@", address).partition("#")
    address, question_mark, query = address.partition("?")
    if query:
        query = VALUE.sub(f"={HIDDEN}", query) if "=" in query else HIDDEN
    return address + question_mark + query + (f"#{HIDDEN}" if fragment else "")
