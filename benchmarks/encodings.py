"""How often the guess of an encoding gives wrong letters, by language.

    .venv/bin/python benchmarks/encodings.py

The samples are lists of 5, 20 and 80 names of countries, languages and currencies in each language (the Unicode CLDR,
from Babel). A sample without letters beyond ASCII is left out. Wrong is a guess that does not give the text back.
charset-normalizer 3 guesses the same bytes.
"""

import random
from collections.abc import Iterator

from babel import Locale
from charset_normalizer import from_bytes

from rnnlm.corpora.text_encoding import guess_encoding
from rnnlm.display.text_layout import columns

SIZES = (5, 20, 80)  # names in a sample
SAMPLES = 60  # of each size
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


def main() -> None:
    rows = []
    for encoding, languages in LANGUAGES.items():
        for language in languages.split():
            row = {"encoding": encoding, "language": Locale.parse(language).english_name or language}
            for size in SIZES:
                texts = list(samples(language, encoding, size))
                row[f"{size} names"] = wrong_share(texts, encoding, ours)
                row[f"charset-normalizer, {size}"] = wrong_share(texts, encoding, theirs)
            rows.append(row)
    print("\n".join(columns(rows)))


def samples(language: str, encoding: str, size: int) -> Iterator[str]:
    locale = Locale.parse(language)
    names = [*locale.territories.values(), *locale.languages.values(), *locale.currencies.values()]
    names = [name for name in names if name.encode(encoding, "replace").decode(encoding) == name]
    draw = random.Random(0)
    for _ in range(SAMPLES):
        text = ", ".join(draw.sample(names, size)) + ".\n"
        if not text.isascii():
            yield text


def wrong_share(texts: list[str], encoding: str, guess: object) -> str:
    assert callable(guess)
    wrong = sum(
        text.encode(encoding).decode(guess(text.encode(encoding)) or "ascii", "replace") != text for text in texts
    )
    return f"{wrong / len(texts):.0%}"


def ours(data: bytes) -> str | None:
    return guess_encoding(data, "utf-8")


def theirs(data: bytes) -> str | None:
    best = from_bytes(data).best()
    return best.encoding if best else None


if __name__ == "__main__":
    main()
