"""The output of `rnnlm inspect`: lines of at most 80 columns."""

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator

from rnnlm.corpora.inspection import INSPECTED_BYTES, Inspection
from rnnlm.corpora.text_encoding import printable
from rnnlm.display.text_layout import LINE_WIDTH, labelled

NAMES_SHOWN = 20  # per reason
SCRIPT_SHARE_SHOWN = 0.001


def inspection_text(found: Inspection) -> str:
    return "\n".join(inspection_lines(found))


def inspection_lines(found: Inspection) -> Iterator[str]:
    yield from wrapped(f"{found.source}: {count(found.files, 'file')} to read, {count(found.source_bytes, 'byte')}")
    if not found.whole:
        yield f"the figures are of the first {INSPECTED_BYTES >> 20} MiB of text"
    scripts = [f"{name} {share:.1%}" for name, share in found.scripts.items() if share >= SCRIPT_SHARE_SHOWN]
    minutes = found.training_seconds / 60
    total = sum(found.documents.values())
    yield labelled("read as", counted(found.kinds) or "nothing")
    if found.encodings:
        yield labelled("encodings", counted(found.encodings))
    yield labelled("text", ", ".join(count(*one) for one in sizes(found)))
    if scripts:
        yield labelled("scripts", f"{', '.join(scripts)} of the letters")
    if not found.refusal:
        yield labelled("documents", f"{total:,}: {counted(found.documents)}")
        least = "" if found.whole else "at least "
        duration = f"{minutes:,.0f} minutes" if minutes >= 1.5 else "a minute"
        yield labelled("time", f"{least}about {duration} of rnnlm run with default settings on 2 idle CPU cores")
    for advice in found.advice:
        yield labelled("advice", advice)
    if found.undecodable:
        yield ""
        yield f"not decodable: {count(len(found.undecodable), 'file')}"
        for bad in found.undecodable:
            guess = f"; {bad.guess}, by a guess" if bad.guess else ""
            yield from wrapped(f"{printable(bad.name)}: {bad.problem}{guess}", "  ")
    if changed := [one for one in found.left_out if one.read]:
        yield ""
        yield f"not read as it stands: {count(len(changed), 'file')}"
        for one in changed:
            yield from wrapped(f"{printable(one.name)}: {one.reason}", "  ")
    if left_out := [one for one in found.left_out if not one.read]:
        yield ""
        yield f"left out: {len(left_out):,}"
        names = defaultdict(list)
        for one in left_out:
            names[one.reason].append(printable(one.name))
        for reason, some in names.items():
            yield from wrapped(f"{reason}:", "  ")
            more = [f"and {len(some) - NAMES_SHOWN:,} more (--json lists all)"] if len(some) > NAMES_SHOWN else []
            yield from wrapped(", ".join([*some[:NAMES_SHOWN], *more]), "    ")
    if found.refusal:
        yield ""
        yield "a run would end with:"
        for line in found.refusal.splitlines():
            yield from wrapped(line, "  ")


def sizes(found: Inspection) -> list[tuple[int, str]]:
    return [(found.text_bytes, "byte"), (found.words, "word"), (found.lines, "line")]


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def counted(numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items())


def wrapped(text: str, indent: str = "") -> Iterable[str]:
    return textwrap.wrap(
        text, LINE_WIDTH, initial_indent=indent, subsequent_indent=indent or "  ", break_on_hyphens=False
    )
