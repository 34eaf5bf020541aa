"""Break very long lines, such as those of text8, which has no line ends and would not fit in memory."""

import re
from collections.abc import Iterator

LINE_CHARACTERS = 8_192  # longest line that is not broken
LONG_LINE = re.compile(rf"^[^\n]{{{LINE_CHARACTERS + 1},}}", re.MULTILINE)
# The rest of a line; what stands before the last space that fits; or, without a space, as much as fits.
STRETCH = re.compile(rf".{{1,{LINE_CHARACTERS}}}$|(.{{1,{LINE_CHARACTERS}}}) |(.{{{LINE_CHARACTERS}}})")


class LineBreaker:
    """Breaks lines of more than LINE_CHARACTERS and counts the breaks.

    A line feed replaces a space, which keeps the size of the text; in LINE_CHARACTERS without a space it is inserted.
    The result does not depend on how the text is cut into pieces.
    """

    def __init__(self) -> None:
        self.breaks = 0

    def __call__(self, pieces: Iterator[str]) -> Iterator[str]:
        """Break long lines of a text, in pieces of any length."""
        held = ""  # an unfinished line that is not too long
        for piece in pieces:
            text = held + piece
            if max(map(len, text.split("\n"))) > LINE_CHARACTERS:  # much faster than the expression
                text = LONG_LINE.sub(self.broken, text)
            end = text.rfind("\n") + 1
            held = text[end:]
            if end:
                yield text[:end]
        if held:
            yield held

    def broken(self, line: re.Match[str]) -> str:
        """Cut a long line again and again."""

        def cut(stretch: re.Match[str]) -> str:
            text = stretch[1] or stretch[2]
            if text is None:
                return stretch[0]
            self.breaks += 1
            return text + "\n"

        return STRETCH.sub(cut, line[0])
