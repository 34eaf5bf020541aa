"""Measure how often a guessed encoding gives wrong letters, by language.

    .venv/bin/python benchmarks/encodings.py [FOLDER]

The samples are lists of 5, 20 and 80 names of countries, languages and currencies in each language, from the Unicode
CLDR in Babel. With FOLDER, the samples are 1, 3 and 10 lines from the message catalogues LANGUAGE/LC_MESSAGES/*.mo
below FOLDER, for example in an unpacked wheel of Django. Samples with only ASCII letters are left out. A guess is wrong
if it does not restore the text. For comparison, charset-normalizer 3 guesses the encoding of the same bytes.
"""

import gettext
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from babel import Locale
from charset_normalizer import from_bytes

from rnnlm.corpora.text_encoding import guess_encoding
from rnnlm.display.text_layout import columns

SIZES = (5, 20, 80)  # The numbers of names in a sample from the CLDR.
LINES = (1, 3, 10)  # The numbers of lines in a sample from message catalogues.
SHORTEST_LINE = 16  # The smallest number of characters in a line that is used.
SAMPLES = 60  # The number of samples of each size.
LANGUAGES = {
    "cp1252": "da de es fi fr is it nl nb pt sv",
    "cp1250": "cs hr hu pl ro sk",
    "cp1257": "et lt lv",
    "cp1254": "tr",
    "cp1251": "bg ru uk",
    "koi8-r": "ru",
    "cp866": "ru",
    "cp1253": "el",
    "cp1255": "he",
    "cp1256": "ar",
    "cp874": "th",
    "cp932": "ja",
    "euc_jp": "ja",
    "gb18030": "zh_Hans",
    "big5": "zh_Hant",
    "cp949": "ko",
}


def main(folder: Path | None) -> None:
    rows = []
    sizes, unit = (LINES, "lines") if folder else (SIZES, "names")
    for encoding, languages in LANGUAGES.items():
        for language in languages.split():
            row = {"encoding": encoding, "language": Locale.parse(language).english_name or language}
            parts = lines_of_catalogues(folder, language) if folder else names_of(language)
            for size in sizes:
                texts = list(samples(parts, "\n" if folder else ", ", encoding, size))
                row[f"{size} {unit}"] = wrong_share(texts, encoding, ours)
                row[f"charset-normalizer, {size}"] = wrong_share(texts, encoding, theirs)
            rows.append(row)
    print("\n".join(columns(rows)))


def names_of(language: str) -> list[str]:
    locale = Locale.parse(language)
    return [*locale.territories.values(), *locale.languages.values(), *locale.currencies.values()]


def lines_of_catalogues(folder: Path, language: str) -> list[str]:
    """Return the translated lines in sorted order. Lines that contain placeholders are left out."""
    found: set[str] = set()
    for path in folder.glob(f"**/{language}/LC_MESSAGES/*.mo"):
        with path.open("rb") as file:
            catalogue = vars(gettext.GNUTranslations(file))["_catalog"]
        texts = {text.replace("\n", " ") for name, text in catalogue.items() if name and isinstance(text, str)}
        found |= {text for text in texts if len(text) >= SHORTEST_LINE and not {"%", "{"} & set(text)}
    return sorted(found)


def samples(parts: list[str], between: str, encoding: str, size: int) -> Iterator[str]:
    parts = [part for part in parts if part.encode(encoding, "replace").decode(encoding) == part]
    draw = random.Random(0)
    for _ in range(SAMPLES if len(parts) >= size else 0):
        text = between.join(draw.sample(parts, size)) + ("\n" if between == "\n" else ".\n")
        if not text.isascii():
            yield text


def wrong_share(texts: list[str], encoding: str, guess: object) -> str:
    assert callable(guess)
    wrong = sum(
        text.encode(encoding).decode(guess(text.encode(encoding)) or "ascii", "replace") != text for text in texts
    )
    return f"{wrong / len(texts):.0%}" if texts else ""


def ours(data: bytes) -> str | None:
    return guess_encoding(data, "utf-8")


def theirs(data: bytes) -> str | None:
    best = from_bytes(data).best()
    return best.encoding if best else None


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
