"""Decode a stream of tokens incrementally: the text that each token adds."""

from collections.abc import Sequence

from rnnlm.tokenizers.text_tokenizer import NEVER_FROM_TEXT, TextTokenizer

PROMPT_TOKENS = 8  # of the prompt's end, kept as context
INCOMPLETE_CHARACTER = "\ufffd"  # how decoders show bytes that are not a whole character


class IncrementalDecoder:
    """Decode a stream of token ids.

    The results of add(), joined, are the decoded ids without the prompt's text and without an incomplete character at
    the end. A token cannot be decoded by itself: a word has a space before it unless it comes first, and a byte may be
    a third of a character. So each token is decoded after the one before it, and an incomplete character is held back.
    """

    def __init__(self, tokenizer: TextTokenizer, prompt_ids: Sequence[int] = ()) -> None:
        """Begin a text. After a prompt, the first token also adds the space between the two, if there is one."""
        self.tokenizer = tokenizer
        self.ids = list(prompt_ids[-PROMPT_TOKENS:])
        self.context = 0  # ids before it are no longer needed
        self.written = len(self.ids)  # ids before it were returned or are in the prompt

    def add(self, token_id: int) -> str:
        """Return the text that the token adds, or "" while its character is incomplete."""
        if token_id not in NEVER_FROM_TEXT:  # special tokens have no text and would hide the token before
            self.ids.append(token_id)
        before = self.tokenizer.decode(self.ids[self.context : self.written])
        added = self.tokenizer.decode(self.ids[self.context :])[len(before) :]
        if added.endswith(INCOMPLETE_CHARACTER):
            return ""
        if self.written < len(self.ids):
            self.context, self.written = self.written, len(self.ids)
        return added
