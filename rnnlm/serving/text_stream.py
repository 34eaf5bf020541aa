"""Tokens as text that grows: what each one adds."""

from collections.abc import Sequence

from rnnlm.tokenizers.text_tokenizer import NEVER_FROM_TEXT, SPECIAL_TOKENS, TextTokenizer

PROMPT_SEEN = 8  # of its last tokens
HALF_A_CHARACTER = "\ufffd"  # what a decoder shows for bytes that are not a whole character


class GrowingText:
    """Decodes a stream of ids: what add() returned, joined, is the decoding of all ids, less the prompt's text and a
    character that is incomplete at the end.

    One token alone cannot be decoded: a word has a space before it unless it is the first, a byte may be a third of a
    character. So each is decoded behind the token before it, and an incomplete character is held back.
    """

    def __init__(self, tokenizer: TextTokenizer, prompt_ids: Sequence[int] = ()) -> None:
        """After a prompt, the first token adds the space between the two as well, where there is one."""
        self.tokenizer = tokenizer
        self.ids = list(prompt_ids[-PROMPT_SEEN:])
        self.context = 0  # ids before it are not looked at any more
        self.written = len(self.ids)  # ids before it are in what was returned, or in the prompt

    def add(self, token_id: int) -> str:
        """What the token adds; "" while its character is not complete."""
        if token_id not in NEVER_FROM_TEXT:  # they have no text, and would hide the token before
            self.ids.append(token_id)
        before = self.tokenizer.decode(self.ids[self.context : self.written])
        added = self.tokenizer.decode(self.ids[self.context :])[len(before) :]
        if added.endswith(HALF_A_CHARACTER):
            return ""
        if self.written < len(self.ids):
            self.context, self.written = self.written, len(self.ids)
        return added


def spelling(tokenizer: TextTokenizer, token_id: int) -> str:
    """How a token is shown by itself, special ones by their names."""
    return SPECIAL_TOKENS[token_id] if token_id < len(SPECIAL_TOKENS) else tokenizer.decode([token_id])
