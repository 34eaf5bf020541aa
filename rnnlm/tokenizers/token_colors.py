"""A line of text in colours, so that one sees where its pieces begin and end."""

from rnnlm.tokenizers.text_tokenizer import UNK, TextTokenizer

COLOURS = (44, 42, 45, 46)  # ANSI backgrounds in turn: blue, green, magenta, cyan
UNKNOWN = 41  # red
RESET = "\x1b[0m"


def coloured(tokenizer: TextTokenizer, line: str) -> str:
    """The line with each piece on a background of its own, unknown words on red.

    Bytes of a character that fall to several pieces are shown by the pieces' own spelling.
    """
    shown, end = [], 0
    spans = tokenizer.spans(line)
    for index, (token_id, start, stop) in enumerate(spans):
        shown.append(visible(line[end:start]))
        text = line[max(start, end) : stop] if stop > end else tokenizer.pieces([token_id])[0]
        colour = UNKNOWN if token_id == UNK else COLOURS[index % len(COLOURS)]
        shown.append(f"\x1b[30;{colour}m{visible(text)}{RESET}")
        end = max(end, stop)
    return "".join([*shown, visible(line[end:])])


def visible(text: str) -> str:
    """Control characters spelled out: a stranger's text must not steer the terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
