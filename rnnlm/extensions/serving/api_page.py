"""Render the OpenAPI document as a plain HTML page, without scripts, for screens of any width."""

import json
import re
import shlex
from typing import Any

from rnnlm.display.templates import render

TOKEN_HEADER = "Authorization: Bearer $RNNLM_SERVE_TOKEN"  # the shell inserts the token
JSON_HEADER = "Content-Type: application/json"
BOUND_WORDS = {  # of a JSON schema
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "maxLength": "characters at most:",
}


def api_page(document: dict[str, Any], address: str) -> str:
    """Write each route with commands to copy, then each message with its fields and their bounds.

    address: of the service, such as http://127.0.0.1:8000.
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
    """Return the parts of a docstring, each with whether it stands between backticks."""
    return [(part, index % 2 == 1) for index, part in enumerate(re.split("`([^`]+)`", text))]


def curl_command(url: str, request: Any, with_token: bool) -> str:
    """Return a command for the shell. request: the JSON to send; None: a GET."""
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
