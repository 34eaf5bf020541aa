"""Decode a stream of tokens incrementally, and return the text that each token adds."""

from collections.abc import Sequence

from rnnlm.tokenizers.text_tokenizer import NEVER_FROM_TEXT, TextTokenizer

PROMPT_TOKENS = 8  # The number of tokens at the end of the prompt that are decoded together with the first new token.
INCOMPLETE_CHARACTER = "\ufffd"  # The character that decoders return for bytes of an incomplete character.


class IncrementalDecoder:
    """An incremental decoder of token ids.

    The concatenated results of add() are the decoded ids without the prompt's text and without an incomplete character
    at the end. A token cannot be decoded alone. A word has a space before it unless it comes first, and a byte may be
    only a part of a character. Each token is therefore decoded together with the previous token, and an incomplete
    character is held back.
    """

    def __init__(self, tokenizer: TextTokenizer, prompt_ids: Sequence[int] = ()) -> None:
        """Begin a text. After a prompt, the first token also adds the space that separates it from the prompt."""
        self.tokenizer = tokenizer
        self.ids = list(prompt_ids[-PROMPT_TOKENS:])
        self.context = 0  # The index of the first id that is still decoded as context.
        self.written = len(self.ids)  # The number of ids whose text was returned or belongs to the prompt.

    def add(self, token_id: int) -> str:
        """Return the text that the token adds, or "" while its character is incomplete."""
        # Special tokens have no text, and cannot be the context of the next token.
        if token_id not in NEVER_FROM_TEXT:
            self.ids.append(token_id)
        before = self.tokenizer.decode(self.ids[self.context : self.written])
        added = self.tokenizer.decode(self.ids[self.context :])[len(before) :]
        if added.endswith(INCOMPLETE_CHARACTER):
            return ""
        if self.written < len(self.ids):
            self.context, self.written = self.written, len(self.ids)
        return added
