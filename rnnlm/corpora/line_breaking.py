"""Breaking of very long lines. A file such as text8 has no line ends, and would not fit into memory as one line."""

import re
from collections.abc import Iterator

LINE_CHARACTERS = 8_192  # The length in characters of the longest line that is not broken.
LONG_LINE = re.compile(rf"^[^\n]{{{LINE_CHARACTERS + 1},}}", re.MULTILINE)
# A pattern for the rest of a line, for the text before the last space that fits or, without a space, for as many
# characters as fit.
STRETCH = re.compile(rf".{{1,{LINE_CHARACTERS}}}$|(.{{1,{LINE_CHARACTERS}}}) |(.{{{LINE_CHARACTERS}}})")


class LineBreaker:
    """A function that breaks lines of more than LINE_CHARACTERS characters, and counts the breaks.

    A line feed replaces a space, so that the text keeps its size. If LINE_CHARACTERS characters contain no space, a
    line feed is inserted. The result does not depend on where the pieces begin and end.
    """

    def __init__(self) -> None:
        self.breaks = 0

    def __call__(self, pieces: Iterator[str]) -> Iterator[str]:
        """Yield the text with its long lines broken. The pieces of the text may have any length."""
        held = ""  # The unfinished line at the end of the last piece, while it is not too long.
        for piece in pieces:
            text = held + piece
            # The lengths of lines are compared first, which is much faster than the regular expression.
            if max(map(len, text.split("\n"))) > LINE_CHARACTERS:
                text = LONG_LINE.sub(self.broken, text)
            end = text.rfind("\n") + 1
            held = text[end:]
            if end:
                yield text[:end]
        if held:
            yield held

    def broken(self, line: re.Match[str]) -> str:
        """Return a long line broken into as many lines as needed."""

        def cut(stretch: re.Match[str]) -> str:
            text = stretch[1] or stretch[2]
            if text is None:
                return stretch[0]
            self.breaks += 1
            return text + "\n"

        return STRETCH.sub(cut, line[0])
