"""Break very long lines, such as those of text8, which has no line ends and would not fit in memory."""

from collections.abc import Iterator

LINE_CHARACTERS = 8_192  # longest line that is not broken


class LineBreaker:
    """Breaks lines of more than LINE_CHARACTERS and counts the breaks.

    A line feed replaces a space, which keeps the size of the text; in LINE_CHARACTERS without a space it is inserted.
    The result does not depend on how the text is cut into pieces.
    """

    def __init__(self) -> None:
        self.breaks = 0

    def __call__(self, pieces: Iterator[str]) -> Iterator[str]:
        """The text with broken lines, in pieces of any length."""
        held = ""  # beginning of an unfinished line
        for piece in pieces:
            text = held + piece
            end = text.rfind("\n") + 1
            if end and not has_long_line(text, end):
                ready, held = text[:end], text[end:]
            else:
                ready, held = "", text
            if len(held) > LINE_CHARACTERS:
                broken, held = self.broken(held)
                ready += broken
            if ready:
                yield ready
        if held:
            yield held

    def broken(self, text: str) -> tuple[str, str]:
        """The text with its long lines broken, and the beginning of an unfinished line."""
        done: list[str] = []
        start = 0
        while True:
            end = text.find("\n", start, start + LINE_CHARACTERS + 1)
            if end < 0 and len(text) - start <= LINE_CHARACTERS:
                return "".join(done), text[start:]
            if end >= 0:
                done.append(text[start : end + 1])
                start = end + 1
                continue
            self.breaks += 1
            space = text.rfind(" ", start, start + LINE_CHARACTERS + 1)
            stop = space if space > start else start + LINE_CHARACTERS
            done.append(text[start:stop] + "\n")
            start = stop + (space > start)


def has_long_line(text: str, end: int) -> bool:
    """True if a line of text[:end], which ends with a line feed, is too long."""
    if end <= LINE_CHARACTERS:
        return False
    return max(map(len, text[:end].split("\n"))) > LINE_CHARACTERS
