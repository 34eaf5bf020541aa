"""Text ↔ ids behind one face, whatever the kind of tokenizer. Needs tokenizers alone: it travels with every
registered model."""

import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

SPECIAL_TOKENS = ("<pad>", "<unk>", "<bos>", "<eos>")
PAD, UNK, BOS, EOS = range(4)  # their ids, in every tokenizer of ours
NEVER_FROM_TEXT = frozenset((PAD, BOS, EOS))
SETTINGS_FILE = "rnnlm_tokenizer.json"  # what tokenizer.json cannot say: kind, splitting, unknown_literal
ANY_CHARACTER, WORD = re.compile("(?s:.)"), re.compile(r"\S+")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: not encodable as UTF-8


class TextTokenizer:
    """Ids of one line of text, without `<bos>` and `<eos>`: where a sequence begins and ends is not its affair.

    Special tokens never come from text. What has no id becomes `<unk>`; at word level that is also what is
    spelled like a special token, while char, bpe and unigram spell it out.
    """

    pad_id, unk_id, bos_id, eos_id = PAD, UNK, BOS, EOS

    def __init__(
        self, tokenizer: Tokenizer, kind: str, unknown_literal: str | None = None, splitting: str = "whitespace"
    ) -> None:
        self.kind = kind
        self.unknown_literal = unknown_literal
        self.drops_text = kind == "word" and splitting == "textbook"  # what its pattern does not match is lost
        self._tokenizer = tokenizer
        self._tokenizer.encode_special_tokens = True  # do not look for special tokens in text
        self._words: dict[str, int] | None = None  # a dictionary does what the library does, six times as fast
        if kind == "char" or (kind == "word" and splitting == "whitespace"):
            self._words = {piece: id for piece, id in tokenizer.get_vocab().items() if id not in NEVER_FROM_TEXT}
            self._words.pop(SPECIAL_TOKENS[UNK], None)

    @property
    def vocabulary_size(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, line: str) -> list[int]:
        return self.encode_lines([LONE_SURROGATE.sub("\ufffd", line)])[0]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Of many lines at once, which must be encodable as UTF-8."""
        if self._words is not None:
            get = self._words.get
            if self.kind == "char":
                return [[get(character, UNK) for character in line] for line in lines]
            return [[get(word, UNK) for word in line.split()] for line in lines]
        found = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(lines, add_special_tokens=False)]
        return [ids if NEVER_FROM_TEXT.isdisjoint(ids) else unspecial(ids) for ids in found]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; `<unk>` shows, the other special tokens are left out."""
        kept = [int(token_id) for token_id in ids if token_id not in NEVER_FROM_TEXT]
        if self.kind in ("word", "char"):
            return (" " if self.kind == "word" else "").join(self.pieces(kept))
        text: str = self._tokenizer.decode(kept, skip_special_tokens=False)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """How the vocabulary spells each id; a byte-level piece spells a byte as one visible character."""
        return [str(self._tokenizer.id_to_token(int(token_id))) for token_id in ids]

    def spans(self, line: str) -> list[tuple[int, int, int]]:
        """(id, start, end) of each token: the characters of the line that it stands for."""
        if self._words is not None:
            pattern = ANY_CHARACTER if self.kind == "char" else WORD
            found = ((match.group(), *match.span()) for match in pattern.finditer(line))
            return [(self._words.get(piece, UNK), start, end) for piece, start, end in found]
        encoding = self._tokenizer.encode(LONE_SURROGATE.sub("\ufffd", line), add_special_tokens=False)
        ids = unspecial(encoding.ids)
        return [(token_id, start, end) for token_id, (start, end) in zip(ids, encoding.offsets, strict=True)]

    def unknown_words(self, line: str) -> list[str]:
        """What of the line became `<unk>`. The literal the corpus itself uses for that is not among it."""
        if self._words is not None:
            known = self._words
            words = [word for word in (line if self.kind == "char" else line.split()) if word not in known]
        else:
            words = [line[start:end] for token_id, start, end in self.spans(line) if token_id == UNK]
        return [word for word in words if word != self.unknown_literal]

    def dropped_text(self, line: str) -> str:
        """What of the line no token stands for, white space apart."""
        if not self.drops_text:
            return ""
        left, end = [], 0
        for _, start, stop in self.spans(line):
            left.append(line[end:start])
            end = stop
        return "".join("".join([*left, line[end:]]).split())


def unspecial(ids: list[int]) -> list[int]:
    """A pretrained vocabulary may spell a special token in text: there it is only an unknown word."""
    return [UNK if token_id in NEVER_FROM_TEXT else token_id for token_id in ids]


def load_tokenizer(folder: Path) -> TextTokenizer:
    """The tokenizer saved in `folder`. ModelError where there is none of ours."""
    # Not above: where this file has travelled to, there is no rnnlm.
    from rnnlm.errors import ModelError
    from rnnlm.home import read_json

    settings = read_json(folder / SETTINGS_FILE)
    if not isinstance(settings, dict) or not (folder / "tokenizer.json").exists():
        raise ModelError(
            f"{folder}: expected tokenizer.json and {SETTINGS_FILE}; give a run folder or models:/NAME@champion"
        )
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library raises plain Exception for anything it cannot read
        raise ModelError(
            f"{folder / 'tokenizer.json'}: is damaged ({str(error)[:80]}); train or register the model again"
        ) from error
    return TextTokenizer(tokenizer, settings["kind"], settings["unknown_literal"], settings["splitting"])
