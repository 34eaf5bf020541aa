"""Secrets in addresses, hidden before an address is shown or kept."""

import re

HIDDEN = "***"
ADDRESS = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*://[^\s'"<>`]+""")
CREDENTIALS = re.compile(r"://[^/?#]*@")
VALUE = re.compile(r"=[^&;#]*")


def redacted(text: str) -> str:
    """The text with `***` for user, password, the values of a query and the fragment of each address in it.

    Any value of a query may be a signature, so all are hidden; their names stay.
    """
    return ADDRESS.sub(lambda match: redacted_address(match[0]), text)


def redacted_address(address: str) -> str:
    address, _, fragment = CREDENTIALS.sub(f"://{HIDDEN}@", address).partition("#")
    address, question_mark, query = address.partition("?")
    if query:
        query = VALUE.sub(f"={HIDDEN}", query) if "=" in query else HIDDEN
    return address + question_mark + query + (f"#{HIDDEN}" if fragment else "")
