"""The display of the tokens of a line in colours on a terminal."""

from rnnlm.display.text_layout import visible
from rnnlm.tokenizers.text_tokenizer import UNK, TextTokenizer

BACKGROUNDS = (44, 42, 45, 46)  # The ANSI background colours blue, green, magenta and cyan, which are used in turn.
UNKNOWN = 41  # The ANSI background colour red, for unknown words.
RESET = "\x1b[0m"


def coloured(tokenizer: TextTokenizer, line: str) -> str:
    """Return the line with alternating backgrounds for its tokens, and a red background for unknown words.

    If a character's bytes belong to several tokens, the spelling of each of these tokens is shown.
    """
    shown, end = [], 0
    spans = tokenizer.spans(line)
    for index, (token_id, start, stop) in enumerate(spans):
        shown.append(visible(line[end:start]))
        text = line[max(start, end) : stop] if stop > end else tokenizer.pieces([token_id])[0]
        colour = UNKNOWN if token_id == UNK else BACKGROUNDS[index % len(BACKGROUNDS)]
        shown.append(f"\x1b[30;{colour}m{visible(text)}{RESET}")
        end = max(end, stop)
    return "".join([*shown, visible(line[end:])])
