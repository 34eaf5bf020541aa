"""Write the pages that come from code: commands, configuration, and the diagram of the layers.

python docs/generate.py           write them
python docs/generate.py --check   list those that are stale, and exit with 1
"""

import html
import importlib
import json
import pkgutil
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

DOCS = Path(__file__).resolve().parent
EXTENSIONS_A_ROW = 5  # of the diagram
ROOT = DOCS.parent
NOTE = "<!-- Written by docs/generate.py. Do not edit. -->\n\n"


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'stale; run python docs/generate.py' if check else 'written'}")
        if not check:
            path.write_text(pages()[path], encoding="utf-8")
    return 1 if check and stale else 0


def pages() -> dict[Path, str]:
    """Return the text that each generated page should have."""
    return {
        DOCS / "reference" / "commands.md": commands_page(),
        DOCS / "reference" / "configuration.md": configuration_page(),
        DOCS / "images" / "layers.svg": layers_svg(layer_contracts()),
    }


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


# Commands


def commands_page() -> str:
    """Return every command with its arguments, from the objects behind `rnnlm --help`."""
    from flows.command_line import build_group

    sections = [command_section(path, command) for path, command in all_commands("rnnlm", build_group())]
    opening = (
        "# Commands\n\nThis page is made from what `--help` shows of each command. `--json` gives one JSON value on\n"
        "standard output; logs go to standard error. Exit codes: 0, 2 after a user error, 130 after Ctrl-C, 143 after\n"
        "SIGTERM. `rnnlm --install-completion` sets up completion for your shell.\n"
    )
    return NOTE + "\n".join([opening, *sections])


def all_commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield each command with what is typed to call it, in the order of --help."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names or command.invoke_without_command:
        yield path, command
    for name in names:
        yield from all_commands(f"{path} {name}", command.get_command(None, name))


def command_section(path: str, command: Any) -> str:
    """Return a heading, the description, the usage in one line, a row per argument, and the examples."""
    parameters = [one for one in command.params if one.name not in ("install_completion", "show_completion")]
    usage = " ".join([path, *(name if one.required else f"[{name}]" for one in parameters for name in [names_of(one)])])
    rows = [(f"`{names_of(one)}`", html.escape(meaning_of(one), quote=False)) for one in parameters]
    examples = [line.strip().replace("\\[", "[") for line in (command.epilog or "").splitlines()[1:] if line.strip()]
    return (
        f"## {path}\n{command.help}\n\n```text\n{usage}\n```\n\n{table(('argument', 'meaning'), rows)}\n"
        + "```bash\n"
        + "".join(f"{line}\n" for line in examples)
        + "```\n"
    )


def names_of(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"{parameter.metavar}{'' if parameter.nargs == 1 else '…'}"
    value = "" if parameter.is_flag else parameter.metavar
    assert value is not None, f"{parameter.opts}: has no metavar"
    return f"{', '.join(parameter.opts)} {value}".strip()


def meaning_of(parameter: Any) -> str:
    """Return the help text, with the default if the text does not give one."""
    text = parameter.help or ""
    shown = parameter.default not in (None, False, True, "") and "efault" not in text
    return f"{text} Default: {parameter.default}." if shown else text


# Configuration


def configuration_page() -> str:
    """Return every field of PipelineConfig and of the other commands' settings, from their JSON schemas."""
    from rnnlm.config import PipelineConfig

    opening = (
        "# Configuration\n\n`PipelineConfig` is the only parameter of the pipeline's flows. Change a field with\n"
        "`--set SECTION.FIELD=VALUE`, or give a part of it to a deployment. The other models on this page are the\n"
        "settings of single commands; their fields are options of these commands.\n"
    )
    text = NOTE + opening + model_section(PipelineConfig)
    return text + "".join(model_section(model) for model in other_settings(PipelineConfig))


def other_settings(pipeline: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the models of all configuration modules that are no part of the pipeline's, by module and name."""
    import rnnlm

    known = set(pipeline.model_json_schema().get("$defs", {})) | {pipeline.__name__}
    found = []
    for module in pkgutil.walk_packages(rnnlm.__path__, "rnnlm."):
        if re.fullmatch(r"(.*_)?config", module.name.rpartition(".")[2]):
            for model in vars(importlib.import_module(module.name)).values():
                ours = isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.name
                if ours and model.model_fields and model.__name__ not in known:
                    found.append(model)
    return found


def model_section(model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    text = f"\n## {model.__name__}\n"
    if schema.get("description"):
        text += f"{schema['description']}\n"
    return text + "".join(object_sections(schema, schema.get("$defs", {}), "", {}))


def object_sections(
    schema: dict[str, Any], definitions: dict[str, Any], path: str, defaults: dict[str, Any]
) -> Iterator[str]:
    """Yield a table of an object's plain fields, then a section for each field that is an object itself.

    defaults: what the enclosing object sets for these fields; it wins over their own defaults.
    """
    rows, nested = [], []
    for name, field in schema.get("properties", {}).items():
        full = resolved(field, definitions)
        default = defaults.get(name, field.get("default"))
        if "properties" in full:
            nested.append((f"{path}{name}", full, default or {}))
            continue
        shown = "required" if name in schema.get("required", ()) else f"`{json.dumps(default, ensure_ascii=False)}`"
        kind, bounds = type_of(full, definitions), bounds_of(full, definitions)
        rows.append((f"`{path}{name}`", ", ".join(filter(None, [kind, bounds])), shown, description_of(full)))
    if rows:
        yield "\n" + table(("field", "type and bounds", "default", "description"), rows)
    for name, full, inner in nested:
        yield "\n".join(filter(None, [f"\n### {name}", full.get("description")])) + "\n"
        yield from object_sections(full, definitions, f"{name}.", inner)


def resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Put in the schema's reference, if it is one. Keys beside the reference win."""
    for reference in [schema.get("$ref"), *(part.get("$ref") for part in schema.get("allOf", ()))]:
        if reference:
            return resolved(definitions[reference.rpartition("/")[2]], definitions) | schema
    return schema


def type_of(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    schema = resolved(schema, definitions)
    if "anyOf" in schema:
        return " or ".join(type_of(part, definitions) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}), definitions)}"
    return {"null": "null", "string": "text", "number": "number", "integer": "integer", "boolean": "true or false"}.get(
        str(schema.get("type")), "any"
    )


def bounds_of(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return bounds as a reader writes them: ≥ 1, < 0.5, a pattern."""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {schema[key]:,}" for key, sign in signs.items() if key in schema]
    found += [f"length {sign} {schema[key]}" for key, sign in (("minLength", "≥"), ("maxLength", "≤")) if key in schema]
    # As HTML, because a pipe in a code span of a table is read in two ways by Markdown's dialects.
    pattern = html.escape(schema.get("pattern", ""), quote=False).replace("|", "&#124;")
    found += [f"<code>{pattern}</code>"] if pattern else []
    for part in [*schema.get("anyOf", ()), *([schema["items"]] if isinstance(schema.get("items"), dict) else [])]:
        found += filter(None, [bounds_of(resolved(part, definitions), definitions)])
    return ", ".join(found)


def description_of(schema: dict[str, Any]) -> str:
    """Return the field's description, and whether it cannot change a result."""
    note = "" if schema.get("changes_results", True) else " Does not change results."
    return html.escape(schema.get("description", ""), quote=False) + note


# Layers


def layer_contracts() -> list[dict[str, Any]]:
    """Return the contracts of type `layers` in pyproject.toml, or none."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")).get("tool", {})
    return [contract for contract in tools.get("importlinter", {}).get("contracts", []) if contract["type"] == "layers"]


def rows_of_extensions() -> list[list[str]]:
    """Return the names of the extensions, in rows of equal length as far as possible."""
    names = [path.parent.name for path in sorted((ROOT / "rnnlm" / "extensions").glob("*/__init__.py"))]
    rows = -(-len(names) // EXTENSIONS_A_ROW)
    return [names[len(names) * row // rows : len(names) * (row + 1) // rows] for row in range(rows)]


def layers_svg(contracts: list[dict[str, Any]]) -> str:
    """Draw one row of boxes for each layer, the highest first; modules of one layer stand side by side.

    The extensions, which do not import each other, are shown one by one.
    """
    width, height, gap, margin, heading = 760, 28, 12, 16, 30
    parts, y = [], margin
    for contract in contracts:
        prefix = f"{contract['containers'][0]}." if len(contract.get("containers", [])) == 1 else ""
        parts.append(f'<text x="{margin}" y="{y + 14}" class="name">{html.escape(contract["name"])}</text>')
        y += heading
        for number, layer in enumerate(contract["layers"]):
            if number:
                x = width / 2
                parts.append(f'<path d="M{x} {y - gap + 1}V{y - 3}m-4 -4l4 4l4 -4" class="arrow"/>')
            modules = [prefix + name.strip().strip("()") for name in re.split(r"[|:]", layer)]
            for row in rows_of_extensions() if modules == ["rnnlm.extensions"] else [modules]:
                box = (width - 2 * margin - gap * (len(row) - 1)) / len(row)
                for column, name in enumerate(row):
                    x = margin + column * (box + gap)
                    parts.append(f'<rect x="{x:.1f}" y="{y}" width="{box:.1f}" height="{height}" rx="5"/>')
                    label = html.escape(name)
                    parts.append(f'<text x="{x + box / 2:.1f}" y="{y + height / 2 + 5}" class="module">{label}</text>')
                y += height + gap
        y += margin
    style = (
        "rect{fill:#eef1fb;stroke:#3f51b5}text{font-family:sans-serif;fill:#1a237e}.name{font-size:14px}"
        ".module{font-size:14px;text-anchor:middle}.arrow{stroke:#3f51b5;fill:none}"
    )
    body = "\n".join(parts)
    background = '<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" role="img">\n'
        f"<style>{style}</style>\n{background}\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # rnnlm need not be installed
    sys.exit(main())
