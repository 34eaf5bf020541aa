"""Render the OpenAPI document as an HTML page without scripts, for screens of any width."""

import json
import re
import shlex
from typing import Any

from rnnlm.display.templates import render

# The header in the example commands, in which the shell replaces the environment variable by the token.
TOKEN_HEADER = "Authorization: Bearer $RNNLM_SERVE_TOKEN"
JSON_HEADER = "Content-Type: application/json"
BOUND_WORDS = {  # The words on the page for the keywords of a JSON schema.
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "maxLength": "characters at most:",
}


def api_page(document: dict[str, Any], address: str) -> str:
    """Return a page with each route and its example commands, and each message with its fields and their bounds.

    `address` is the service's address, such as http://127.0.0.1:8000.
    """
    return render(
        "extensions/serving/api_page.html.jinja",
        document=document,
        address=address,
        routes=[
            (method, path, route) for path, methods in document["paths"].items() for method, route in methods.items()
        ],
        code_parts=code_parts,
        curl_command=curl_command,
        field_notes=field_notes,
    )


def code_parts(text: str) -> list[tuple[str, bool]]:
    """Split a docstring at backticks. Each part comes with a flag that is True for text between backticks."""
    return [(part, index % 2 == 1) for index, part in enumerate(re.split("`([^`]+)`", text))]


def curl_command(url: str, request: Any, with_token: bool) -> str:
    """Return a curl command for the shell. `request` is the JSON to send, or None for a GET request."""
    lines = [f"curl -s{'N' * bool(request and request.get('stream'))} {shlex.quote(url)}"]
    if with_token:
        lines.append(f'-H "{TOKEN_HEADER}"')
    if request is not None:
        lines += [f"-H {shlex.quote(JSON_HEADER)}", f"-d {shlex.quote(json.dumps(request))}"]
    return " \\\n  ".join(lines)


def field_notes(schema: dict[str, Any], is_required: bool) -> str:
    """Return the default, the bounds and the description of a field."""
    notes = [] if is_required else [f"default {json.dumps(schema.get('default'))}"]
    notes += [f"{words} {schema[name]:,.15g}" for name, words in BOUND_WORDS.items() if name in schema]
    return "; ".join([*notes, *filter(None, [schema.get("description")])])
