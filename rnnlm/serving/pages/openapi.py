"""Render the OpenAPI document as a plain HTML page, without scripts."""

from html import escape
from typing import Any

Schema = dict[str, Any]
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rnnlm: API</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8886; }
code { font-family: ui-monospace, monospace; }
</style>
</head>
<body>
"""


def openapi_page(document: Schema) -> str:
    """Each route with its answers, then each message with its fields and their bounds."""
    parts = [HEAD, f"<h1>{escape(document['info']['title'])} {escape(document['info']['version'])}</h1>"]
    parts.append(
        f"<p>{escape(document['info'].get('description', ''))} As JSON: <a href='openapi.json'>openapi.json</a>. "
    )
    parts.append("To try it: <a href='.'>the page</a>.</p>")
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            parts.append(route_section(method, path, route))
    parts.append("<h2>Messages</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(schema_section(name, schema))
    return "\n".join([*parts, "</body>\n</html>\n"])


def route_section(method: str, path: str, route: Schema) -> str:
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    takes = f"<p>Takes {type_name(body)}.</p>" if body else ""
    rows = []
    for status, answer in route["responses"].items():
        kinds = [
            f"{escape(media)}: {type_name(content.get('schema', {}))}"
            for media, content in answer.get("content", {}).items()
        ]
        rows.append(f"<tr><td>{status}</td><td>{'<br>'.join(kinds)}</td><td>{escape(answer['description'])}</td></tr>")
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(route.get('description', ''))}</p>{takes}"
        f"<table><tr><th>Status</th><th>Gives</th><th>When</th></tr>{''.join(rows)}</table>"
    )


def schema_section(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    rows = []
    for field, about in schema.get("properties", {}).items():
        default = "required" if field in required else f"default {escape(repr(about.get('default')))}"
        notes = "; ".join([default, *field_bounds(about), *([about["description"]] if "description" in about else [])])
        rows.append(f"<tr><td><code>{escape(field)}</code></td><td>{type_name(about)}</td><td>{notes}</td></tr>")
    return (
        f"<h3 id='{escape(name)}'>{escape(name)}</h3><p>{escape(schema.get('description', ''))}</p>"
        f"<table><tr><th>Field</th><th>Type</th><th></th></tr>{''.join(rows)}</table>"
    )


def type_name(schema: Schema) -> str:
    """The type in a word, linked if it is a message."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(map(type_name, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {type_name(schema.get('items', {}))}"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(repr(value))}</code>" for value in schema["enum"])
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
