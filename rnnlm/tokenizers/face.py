"""Text ↔ ids behind one face, whatever the kind of tokenizer."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from rnnlm.errors import ModelError
from rnnlm.home import read_json

SPECIAL_TOKENS = ("<pad>", "<unk>", "<bos>", "<eos>")
PAD, UNK, BOS, EOS = range(4)  # their ids, in every tokenizer of ours
SETTINGS_FILE = "rnnlm_tokenizer.json"  # what tokenizer.json cannot say: kind and unknown_literal


class TextTokenizer:
    """Ids of one line of text, without `<bos>` and `<eos>`: where a sequence begins and ends is not its affair.

    Special tokens never come from text. At word level a word without an id becomes `<unk>`, as does one
    that is spelled like a special token; at byte level such a spelling stays the bytes it is.
    """

    pad_id, unk_id, bos_id, eos_id = PAD, UNK, BOS, EOS

    def __init__(self, tokenizer: Tokenizer, kind: str, unknown_literal: str | None) -> None:
        self.kind = kind
        self.unknown_literal = unknown_literal
        self._tokenizer = tokenizer
        self._tokenizer.encode_special_tokens = True  # do not look for special tokens in text
        spellable = (set(tokenizer.get_vocab()) - set(SPECIAL_TOKENS)) | (
            {unknown_literal} if unknown_literal else set()
        )
        self._spellable: set[str] = spellable

    @property
    def vocabulary_size(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, line: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(line, add_special_tokens=False).ids
        return ids

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(lines, add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; `<unk>` shows, the other special tokens are left out."""
        kept = [int(token_id) for token_id in ids if token_id not in (PAD, BOS, EOS)]
        if self.kind == "word":
            return " ".join(self.pieces(kept))
        text: str = self._tokenizer.decode(kept, skip_special_tokens=False)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [str(self._tokenizer.id_to_token(int(token_id))) for token_id in ids]

    def unknown_words(self, line: str) -> list[str]:
        """The words of the line that have no id. The literal the corpus itself uses for them is not one."""
        if self.kind != "word":
            return []
        return [word for word in line.split() if word not in self._spellable]


def load_tokenizer(folder: Path) -> TextTokenizer:
    """The tokenizer saved in `folder`. ModelError where there is none of ours."""
    settings = read_json(folder / SETTINGS_FILE)
    if not isinstance(settings, dict) or not (folder / "tokenizer.json").exists():
        raise ModelError(
            f"{folder}: expected tokenizer.json and {SETTINGS_FILE}; give a run folder or models:/NAME@champion"
        )
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return TextTokenizer(tokenizer, settings["kind"], settings["unknown_literal"])
