"""Rendering of Jinja templates. Each template is next to the module that uses it."""

from functools import cache
from typing import TYPE_CHECKING

from rnnlm.display.text_layout import markdown_picture, markdown_table, markdown_text
from rnnlm.storage.package_files import PACKAGE

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: object) -> str:
    """Return a rendered template, such as `reports/summary_page.md.jinja`. In HTML, values are escaped."""
    return environment().get_template(template).render(values)


@cache
def environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    found = Environment(
        loader=FileSystemLoader(PACKAGE),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"number": format, "table": markdown_table, "markdown": markdown_text, "picture": markdown_picture}
    return found
