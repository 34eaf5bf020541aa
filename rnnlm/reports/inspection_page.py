"""The output of `rnnlm inspect`, in lines of at most 80 columns."""

import textwrap
from collections import defaultdict
from collections.abc import Iterable

from rnnlm.corpora.inspection import INSPECTED_BYTES, Inspection
from rnnlm.corpora.printable_names import printable
from rnnlm.display.text_layout import LINE_WIDTH, fact_lines

NAMES_SHOWN = 20  # The largest number of file names that are shown for each reason.
SCRIPT_SHARE_SHOWN = 0.001


def inspection_text(found: Inspection) -> str:
    scripts = [f"{name} {share:.1%}" for name, share in found.scripts.items() if share >= SCRIPT_SHARE_SHOWN]
    sizes = ((found.text_bytes, "byte"), (found.words, "word"), (found.lines, "line"))
    facts = {
        "read as": counted(found.kinds) or "nothing",
        "encodings": counted(found.encodings),
        "text": ", ".join(count(*one) for one in sizes),
        "scripts": f"{', '.join(scripts)} of the letters" if scripts else "",
        "documents": ""
        if found.refusal or not any(found.documents.values())
        else f"{sum(found.documents.values()):,}: {counted(found.documents)}",
        "decisions": decisions(found),
        "time": "" if found.refusal else training_time(found),
        "advice": found.advice,
    }
    lines = wrapped(f"{found.source}: {count(found.files, 'file')} to read, {count(found.source_bytes, 'byte')}")
    lines += [] if found.whole else [f"the figures are of the first {INSPECTED_BYTES >> 20} MiB of text"]
    lines += fact_lines(facts)
    changed = [f"{printable(one.name)}: {one.reason}" for one in found.left_out if one.read]
    left_out = [one for one in found.left_out if not one.read]
    undecodable = [
        f"{printable(bad.name)}: {bad.problem}" + (f"; {bad.guess}, by a guess" if bad.guess else "")
        for bad in found.undecodable
    ]
    lines += section(f"not decodable: {count(len(undecodable), 'file')}", undecodable)
    lines += section(f"read with changes: {count(len(changed), 'file')}", changed)
    lines += ["", f"left out: {len(left_out):,}"] if left_out else []
    names = defaultdict(list)
    for one in left_out:
        names[one.reason].append(printable(one.name))
    for reason, some in names.items():
        more = [f"and {len(some) - NAMES_SHOWN:,} more (--json lists all)"] if len(some) > NAMES_SHOWN else []
        lines += [*wrapped(f"{reason}:", "  "), *wrapped(", ".join([*some[:NAMES_SHOWN], *more]), "    ")]
    return "\n".join([*lines, *section("a run would end with:", (found.refusal or "").splitlines())])


def decisions(found: Inspection) -> str:
    """Return the number of lines for comparing two models, and the smallest difference that they can show."""
    ground = found.ground
    if found.refusal or ground is None:
        return ""
    what = "documents" if ground.documents == ground.units else "runs of lines"
    if ground.units < found.minimum_units:
        return (
            f"none: {count(ground.lines, 'held-out line')} to judge a new model by, and {found.minimum_units} are "
            "needed (registry.minimum_units); add text"
        )
    least = "" if found.whole else "at least "
    return (
        f"possible, on {least}{count(ground.lines, 'held-out line')} in {ground.units:,} {what}: differences of about "
        f"{ground.detectable:.1%} and more can be shown"
    )


def training_time(found: Inspection) -> str:
    minutes = found.training_seconds / 60
    least = "" if found.whole else "at least "
    duration = f"{minutes:,.0f} minutes" if minutes >= 1.5 else "a minute"
    return f"{least}about {duration} of rnnlm run with default settings on 2 idle CPU cores"


def section(title: str, items: Iterable[str]) -> list[str]:
    """Return an empty line, the title and the indented items, or no lines if there are no items."""
    lines = [line for item in items for line in wrapped(item, "  ")]
    return ["", title, *lines] if lines else []


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def counted(numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items())


def wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, LINE_WIDTH, initial_indent=indent, subsequent_indent=indent or "  ", break_on_hyphens=False
    )
