"""Conversion of text to token ids and back, for every kind of tokenizer.

The module is copied into every registered model, so it imports only NumPy and the tokenizers library.
"""

import json
import math
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from ..errors import ModelError
from ..metrics import SPELLED_BYTE_BITS, spelled_bits, utf8_bytes
from .saved_tokenizer import read_tokenizer

SPECIAL_TOKENS = ("<pad>", "<unk>", "<bos>", "<eos>")
PAD, UNK, BOS, EOS = range(4)  # The special tokens have the same ids in every tokenizer.
NEVER_FROM_TEXT = frozenset((PAD, BOS, EOS))
# The file with the settings kind, splitting and unknown_literal, which tokenizer.json lacks.
SETTINGS_FILE = "rnnlm_tokenizer.json"
BYTE_KINDS = ("bpe", "unigram")  # The kinds of tokenizers that work on bytes.
ANY_CHARACTER, WORD = re.compile("(?s:.)"), re.compile(r"\S+")
# The following constants are the numbers of bits in TextTokenizer.restoration_bits. With these values, the
# probabilities of all texts sum to at most one.
PLAIN_GAP_BITS = math.log2(256 / 255)  # The bits for an expected gap between words.
# The bits for no space before the first word or after the last one.
PLAIN_END_BITS = PLAIN_GAP_BITS + math.log2(32 / 31)
# Bit flags of a line that begins or ends with one space, as lines of the Penn Treebank do.
SPACE_END_BITS = PLAIN_GAP_BITS + math.log2(32)
# The bits for the information whether an `<unk>` is the corpus's own literal or an unknown word.
LITERAL_BITS = math.log2(6 / 5)
# The pattern by which tokenizers over bytes first split a line (Radford et al. 2019), in its form for printable ASCII.
# Encoding the resulting pieces one by one gives the same tokens as encoding the line. Most pieces are a word with the
# space before it.
ASCII_PIECE = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+| ?[0-9]+| ?[!-/:-@\[-`{-~]+| +(?![^ ])| +")
# A simpler pattern for all other lines. Its pieces can also be encoded one by one, because the full pattern never joins
# two non-spaces that a space separates.
SPACED_PIECE = re.compile(r"\s*\S+(?:[^\S ]\s*\S*)*|\s+")
BYTE_SPACE = "Ġ"  # The character that represents the space in tokenizers over bytes.
# The largest number of cached pieces, and the largest number of characters in each. They need at most 20 MB.
REMEMBERED_PIECES, LONGEST_REMEMBERED = 1 << 17, 32
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # An unpaired surrogate, which UTF-8 cannot encode.


class PieceIds(dict[str, bytes]):
    """A cache with the ids of each piece of text as int32 bytes.

    Most words occur repeatedly, so they are encoded only once.
    """

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self.encode = encode

    def __missing__(self, piece: str) -> bytes:
        ids = array("i", self.encode(piece)).tobytes()
        if len(piece) <= LONGEST_REMEMBERED:
            if len(self) >= REMEMBERED_PIECES:
                self.clear()  # The cache is emptied when it is full, because the language of the text may have changed.
            self[piece] = ids
        return ids


def is_plain(text: str) -> bool:
    """Return True if the text consists only of printable ASCII characters."""
    return text.isascii() and text.isprintable()


def split_for_bytes(line: str) -> list[str]:
    """Return pieces of a line that a tokenizer over bytes can encode one by one with the same result."""
    pieces: list[str] = (ASCII_PIECE if is_plain(line) else SPACED_PIECE).findall(line)
    return pieces


class TextTokenizer:
    """An encoder of lines of text. `<bos>` and `<eos>` are added later, when sequences are made.

    Text never becomes a special token. If a word is spelled like a special token, word tokenizers encode it as `<unk>`;
    char, bpe and unigram tokenizers encode its characters or bytes.
    """

    pad_id, unk_id, bos_id, eos_id = PAD, UNK, BOS, EOS

    def __init__(
        self, tokenizer: Tokenizer, kind: str, unknown_literal: str | None = None, splitting: str = "whitespace"
    ) -> None:
        self.kind = kind
        self.unknown_literal = unknown_literal
        self.splitting = splitting
        self._tokenizer = tokenizer
        # With this setting, text that is spelled like a special token is encoded as ordinary text.
        self._tokenizer.encode_special_tokens = True
        self._words: dict[str, int] | None = None
        self._split: Callable[[str], Sequence[str]] | None = split_for_bytes if kind in BYTE_KINDS else None
        if kind == "char" or (kind == "word" and splitting == "whitespace"):
            self._words = {piece: id for piece, id in tokenizer.get_vocab().items() if id not in NEVER_FROM_TEXT}
            self._words.pop(SPECIAL_TOKENS[UNK], None)
            self._split = str if kind == "char" else str.split
        self._model = tokenizer.model
        # Looking up pieces is several times as fast as calling the library.
        self._pieces = PieceIds(self._ids_of_piece)

    @property
    def vocabulary_size(self) -> int:
        return self._tokenizer.get_vocab_size()

    @property
    def vocabulary(self) -> dict[str, int]:
        """The id of every token by its spelling, including special tokens."""
        return dict(self._tokenizer.get_vocab())

    def encode(self, line: str) -> list[int]:
        token_ids, _ = self.encode_lines([LONE_SURROGATE.sub("\ufffd", line)])
        return token_ids.tolist()

    def encode_lines(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of many lines, (tokens,) int32, and the lengths of the lines, (lines,) int64.

        The lines must be encodable as UTF-8. segmentation.encoded_lines() returns both arrays as TokenRows.
        """
        if self._split is None:
            found = [
                unspecial(encoding.ids)
                for encoding in by_library(self._tokenizer.encode_batch_fast, lines, add_special_tokens=False)
            ]
            lengths = np.fromiter(map(len, found), np.int64, len(found))
            return np.fromiter(chain.from_iterable(found), np.int32, int(lengths.sum())), lengths
        split, ids_of = self._split, self._pieces.__getitem__
        encoded = [b"".join(map(ids_of, split(line))) for line in lines]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded)) // np.dtype(np.int32).itemsize
        return np.frombuffer(b"".join(encoded), np.int32), lengths

    def _ids_of_piece(self, piece: str) -> list[int]:
        """Return the ids of a piece from `_split`."""
        if self._words is not None:
            return [self._words.get(piece, UNK)]
        # The piece needs no splitting, so it is passed to the library's model directly, which takes half the time.
        if is_plain(piece) and ASCII_PIECE.fullmatch(piece):
            return [token.id for token in self._model.tokenize(piece.replace(" ", BYTE_SPACE))]
        return unspecial(by_library(self._tokenizer.encode, piece, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids. It contains `<unk>`, but not the other special tokens."""
        kept = [int(token_id) for token_id in ids if token_id not in NEVER_FROM_TEXT]
        if self.kind in ("word", "char"):
            return (" " if self.kind == "word" else "").join(self.pieces(kept))
        text: str = by_library(self._tokenizer.decode, kept, skip_special_tokens=False)
        return text

    def decode_after(self, before: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that `ids` add to the text of `before`, including the white space in between."""
        return self.decode([*before, *ids])[len(self.decode(before)) :]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the vocabulary's spelling of each id. Tokens over bytes show each byte as one visible character."""
        return [str(self._tokenizer.id_to_token(int(token_id))) for token_id in ids]

    def spans(self, line: str) -> list[tuple[int, int, int]]:
        """Return the id of each token, with its start and end as character offsets in the line."""
        if self._words is not None:
            pattern = ANY_CHARACTER if self.kind == "char" else WORD
            found = ((match.group(), *match.span()) for match in pattern.finditer(line))
            return [(self._words.get(piece, UNK), start, end) for piece, start, end in found]
        encoding = by_library(self._tokenizer.encode, LONE_SURROGATE.sub("\ufffd", line), add_special_tokens=False)
        ids = unspecial(encoding.ids)
        return [(token_id, start, end) for token_id, (start, end) in zip(ids, encoding.offsets, strict=True)]

    def unknown_words(self, line: str) -> list[str]:
        """Return the words that are encoded as `<unk>`, except for the corpus's own literal for unknown words."""
        if self._words is not None:
            known = self._words
            words = [word for word in (line if self.kind == "char" else line.split()) if word not in known]
        else:
            words = [line[start:end] for token_id, start, end in self.spans(line) if token_id == UNK]
        return [word for word in words if word != self.unknown_literal]

    def restoration_bits(
        self, line: str, token_count: int, unknown_count: int, unknown_words: Sequence[str], blank_is_dropped: bool
    ) -> float:
        """Return the number of bits that are needed to restore the line, in addition to those of the tokens.

        An unknown word needs 8 bits for each of its UTF-8 bytes and 8 bits for its end (a single character needs no
        end). A word tokenizer also loses white space and everything that its pattern does not match. Hence each gap
        between words is encoded as expected or unexpected. One space is expected between words. At the ends of the
        line, no space or one space is expected. If words are split at punctuation, one more bit encodes whether there
        is a space. Unexpected gaps are encoded in bytes, with an escape code and an end. This also applies to a blank
        line without a sequence (blank_is_dropped). Other tokenizers lose nothing.

        Args:
            line: The text.
            token_count: The number of ids of the line.
            unknown_count: The number of these ids that are `<unk>`.
            unknown_words: The result of `unknown_words` for the line. Any other `<unk>` is the corpus's own literal.
            blank_is_dropped: Whether a blank line has no sequence.
        """
        if not token_count and blank_is_dropped:
            return SPELLED_BYTE_BITS * (2 + utf8_bytes(line))
        bits = 0.0
        if self.kind == "word":
            inner = max(0, token_count - 1)
            bits += inner * (PLAIN_GAP_BITS + (self.splitting != "whitespace")) + 2 * PLAIN_END_BITS
            for gap, at_end in self.unexpected_gaps(line):
                one_space = at_end and gap == " "
                bits += SPACE_END_BITS if one_space else SPELLED_BYTE_BITS * (2 + utf8_bytes(gap))
        return bits + self.spelling_bits(unknown_count, unknown_words)

    def spelling_bits(self, unknown_count: int, unknown_words: Sequence[str]) -> float:
        """Return the part of restoration_bits() that is needed for `<unk>` tokens."""
        literals = unknown_count - len(unknown_words)
        return spelled_bits(unknown_words, with_ends=self.kind != "char") + LITERAL_BITS * literals

    def unexpected_gaps(self, line: str) -> Iterator[tuple[str, bool]]:
        """Yield each white space that is not the expected single space, with True if it is at an end of the line."""
        if self.splitting != "textbook" and line == " ".join(line.split()):
            return  # The line has no unexpected gap, like most lines.
        expected: tuple[str, ...] = ("",)
        end = 0
        for _, start, stop in self.spans(line):
            if line[end:start] not in expected:
                yield line[end:start], not end
            expected, end = (" ",) if self.splitting == "whitespace" else ("", " "), stop
        if line[end:]:
            yield line[end:], True


def by_library(function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Call the tokenizers library. Raise ModelError if a pretrained tokenizer.json fails on this text."""
    try:
        return function(*arguments, **settings)
    except BaseException as error:  # The exception for a panic in Rust code is not a subclass of Exception.
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise ModelError(
            f"the model's tokenizer.json fails on this text ({str(error)[:100]});\nuse another tokenizer"
        ) from error


def unspecial(ids: list[int]) -> list[int]:
    """Replace special tokens by `<unk>`, because a pretrained tokenizer may recognize them in text."""
    if NEVER_FROM_TEXT.isdisjoint(ids):
        return ids
    return [UNK if token_id in NEVER_FROM_TEXT else token_id for token_id in ids]


def load_tokenizer(folder: Path) -> TextTokenizer:
    """Load the tokenizer in `folder`. Raise ModelError if its files are missing or damaged."""
    try:
        settings = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        settings = None
    except OSError as error:
        raise ModelError(f"{folder / SETTINGS_FILE}: cannot be read ({error.strerror})") from error
    if not isinstance(settings, dict) or not (folder / "tokenizer.json").exists():
        raise ModelError(
            f"{folder}: expected tokenizer.json and {SETTINGS_FILE}; give a run folder or models:/NAME@champion"
        )
    try:
        tokenizer = read_tokenizer(folder, settings, SPECIAL_TOKENS)
        return TextTokenizer(tokenizer, settings["kind"], settings["unknown_literal"], settings["splitting"])
    except (KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise ModelError(
            f"{folder}: the tokenizer is damaged ({str(error)[:300]});\n"
            "copy the model again from its source, or train it again"
        ) from error
