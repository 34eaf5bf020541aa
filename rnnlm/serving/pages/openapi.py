"""Render the OpenAPI document as a plain HTML page, without scripts, for screens of any width."""

import json
import re
import shlex
from html import escape
from typing import Any

Schema = dict[str, Any]
TOKEN_HEADER = "Authorization: Bearer $RNNLM_SERVE_TOKEN"  # the shell inserts the token
JSON_HEADER = "Content-Type: application/json"
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rnnlm: API</title>
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif;
  --text: light-dark(#1c2024, #e6e8ea); --soft: light-dark(#5f6872, #9aa4ae); --paper: light-dark(#ffffff, #16191c);
  --sunk: light-dark(#f3f4f6, #1f2429); --line: light-dark(#d3d8de, #39414a); --accent: light-dark(#1d5fb8, #7fb2f5); }
* { box-sizing: border-box; }
body { max-width: 56rem; margin: 0 auto; padding: 1rem 1.25rem 3rem; color: var(--text); background: var(--paper);
  overflow-wrap: anywhere; }
a { color: var(--accent); }
h1 { font-size: 1.35rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h2 code { font-size: 1.05rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 .2rem; }
h4 { font-size: .9rem; font-weight: normal; color: var(--soft); margin: .8rem 0 .2rem; }
p { margin: .3rem 0; }
nav ul { list-style: none; padding: 0; columns: 14rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9rem; }
pre { white-space: pre-wrap; margin: .2rem 0 .6rem; padding: .6rem .8rem; background: var(--sunk);
  border: 1px solid var(--line); border-radius: .4rem; }
dl { display: grid; grid-template-columns: minmax(11rem, max-content) 1fr; gap: .3rem 1.2rem; margin: .6rem 0; }
dd { margin: 0; }
.soft { color: var(--soft); }
summary { cursor: pointer; color: var(--soft); }
@media (max-width: 40rem) { dl { display: block; } dd { margin: 0 0 .6rem 1rem; } pre { font-size: .78rem; } }
</style>
</head>
<body>
"""


def openapi_page(document: Schema, address: str) -> str:
    """Each route with commands to copy, then each message with its fields and their bounds.

    address: of the service, such as http://127.0.0.1:8000.
    """
    info = document["info"]
    routes = [(method, path, route) for path, methods in document["paths"].items() for method, route in methods.items()]
    links = "".join(
        f"<li><a href='#{anchor(path)}'><code>{method.upper()} {escape(path)}</code></a></li>"
        for method, path, _ in routes
    )
    parts = [
        HEAD,
        f"<h1>{escape(info['title'])} {escape(info['version'])}: API</h1>",
        f"<p>{escape(info.get('description', ''))} The same for programs: <a href='openapi.json'>openapi.json</a>. "
        f"To try it: <a href='.'>the page</a>.</p><nav aria-label='Routes'><ul>{links}</ul></nav>",
    ]
    parts += [route_section(method, path, route, address) for method, path, route in routes]
    parts.append("<h2>Messages</h2>")
    parts += [schema_section(name, schema) for name, schema in document["components"]["schemas"].items()]
    return "\n".join([*parts, "</body>\n</html>\n"])


def prose(text: str) -> str:
    """Text of a docstring, which marks code with backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def anchor(path: str) -> str:
    return f"route-{escape(path.strip('/'))}"


def route_section(method: str, path: str, route: Schema, address: str) -> str:
    content = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    takes = f"Takes {type_name(content['schema'])}. " if content else ""
    examples: dict[str, Any] = content.get("examples", {"": {"value": None}})
    commands = "".join(
        (f"<h4>{escape(title)}</h4>" if len(examples) > 1 else "")
        + f"<pre>{escape(curl_command(address + path, example['value'], bool(route.get('security'))))}</pre>"
        for title, example in examples.items()
    )
    refusals = "".join(
        f"<dt>{status}</dt><dd>{escape(answer['description'])}; <span class='soft'>{media_types(answer)}</span></dd>"
        for status, answer in route["responses"].items()
        if status != "200"
    )
    return (
        f"<section id='{anchor(path)}'><h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{prose(route.get('description', ''))}</p>{commands}"
        f"<p>{takes}Gives {media_types(route['responses']['200'])}.</p>"
        + (f"<details><summary>Refusals</summary><dl>{refusals}</dl></details>" if refusals else "")
        + "</section>"
    )


def curl_command(url: str, request: Any, with_token: bool) -> str:
    """A command for the shell. request: the JSON to send; None: a GET."""
    lines = [f"curl -s{'N' * bool(request and request.get('stream'))} {shlex.quote(url)}"]
    if with_token:
        lines.append(f'-H "{TOKEN_HEADER}"')
    if request is not None:
        lines += [f"-H {shlex.quote(JSON_HEADER)}", f"-d {shlex.quote(json.dumps(request))}"]
    return " \\\n  ".join(lines)


def media_types(answer: Schema) -> str:
    """The message that the answer holds, or the media types that have none."""
    return ", or ".join(
        type_name(content["schema"]) if {"$ref", "anyOf"} & content.get("schema", {}).keys() else escape(media)
        for media, content in answer.get("content", {}).items()
    )


def schema_section(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    rows = []
    for field, about in schema.get("properties", {}).items():
        default = [] if field in required else [f"default {escape(json.dumps(about.get('default')))}"]
        description = [prose(about["description"])] if "description" in about else []
        notes = "; ".join([*default, *field_bounds(about), *description])
        rows.append(
            f"<dt><code>{escape(field)}</code> <span class='soft'>{type_name(about)}</span></dt><dd>{notes}</dd>"
        )
    return (
        f"<h3 id='{escape(name)}'>{escape(name)}</h3><p>{prose(schema.get('description', ''))}</p>"
        f"<dl>{''.join(rows)}</dl>"
    )


def type_name(schema: Schema) -> str:
    """The type in a word, linked if it is a message."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#{name}'>{name}</a>"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(map(type_name, schema[union]))
    if schema.get("type") == "array":
        return f"list of {type_name(schema.get('items', {}))}"
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    return escape(str(schema.get("type", "anything")))


def field_bounds(schema: Schema) -> list[str]:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "exclusiveMaximum": "less than",
        "maxLength": "characters at most:",
    }
    return [f"{text} {schema[name]:,}" for name, text in words.items() if name in schema]
