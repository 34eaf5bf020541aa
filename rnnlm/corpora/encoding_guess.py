"""Detection of the encoding of text that is not UTF-8.

The module searches for the encoding in which the text consists of words of a language. Each candidate decodes the words
that have non-ASCII bytes. Their letters are compared with the letters of the languages that use this encoding. For
instance, é, è and à are three frequent letters of French in cp1252. In cp1250 the same bytes are é, č and ŕ, which no
language uses together. Frequent short words of a language are evidence for this language. Chinese, Japanese and Korean
are detected by characters that are frequent in them. `benchmarks/encodings.py` prints the error rates.
"""

import math
import re
from collections import Counter
from functools import cache
from typing import NamedTuple

COMPARED_WORDS = 400
# The log-probabilities of a letter that the language does not use, of a character in an unusual place, of an unassigned
# code, and of a sign such as a dash.
OTHER_LETTER, ODD_PLACE, NO_CHARACTER, SIGN = math.log(1e-3), math.log(1e-4), math.log(1e-6), math.log(0.02)
APOSTROPHE = math.log(0.2)
# A language with fewer non-ASCII letters is treated as if it had this number of them. Otherwise, each of its few
# letters would be too probable.
FEWEST_LETTERS = 5
# The mean log-probability of the characters below which the text is in no known language.
LEAST_MEAN = math.log(0.006)
# The difference of two summed log-probabilities below which a guess is called uncertain.
UNCERTAIN = 2.5
# If fewer than one byte in MOSTLY_ASCII is not ASCII, a non-Latin alphabet is unlikely. OTHER_ALPHABET is then
# subtracted from the summed log-probability of encodings with such an alphabet.
MOSTLY_ASCII, OTHER_ALPHABET = 5, 6.0
# The number that is added to the summed log-probability, so that a few odd characters do not exclude a short text.
LENIENCE = 1.0
# The log-probability that each frequent short word of the language adds, and the largest sum that these words add.
SHORT_WORD, MOST_FOR_SHORT_WORDS = 1.0, 8.0
# The log-probability that is added for each ASCII letter that the language does not use, and the lowest sum of these
# terms.
FOREIGN_LETTER, MOST_FOR_FOREIGN_LETTERS = -0.7, -2.8
NO_ASCII_LETTERS = bytes(code for code in range(256) if code >= 0x80 or not chr(code).isalpha())
NON_ASCII_WORD = re.compile(rb"[A-Za-z0-9'-]*[\x80-\xff][A-Za-z0-9'\x80-\xff-]*")
ASCII_WORD = re.compile(rb"(?<![A-Za-z\x80-\xff])[A-Za-z]{1,4}(?![A-Za-z\x80-\xff])")
CONTROL = re.compile(rb"[\x00-\x06\x0e-\x19\x1c-\x1f]")
MOST_CONTROLS = 0.02  # The fraction of control characters above which data is not text in these encodings.
SIGNS = set("“”„‘’‚–—…«»‹›€£¥§°·•©®™¿¡ªº½¼¾²³×÷±µ†‡\xa0\xad")
SIGNS_WITHIN_WORDS = set("’·\xad")
THAI_SIGNS = set("่้ิีึืุู็ั์ำ")  # Thai signs that stand above or below a letter.
LATIN_WORDS = set("àèéóåöíáúÀÈÉÓÅÖÍÁÚÖ")  # Single letters that are words in some language.


class Language(NamedTuple):
    letters: str  # The non-ASCII letters of the language, by decreasing frequency.
    words: str = ""  # Frequent short words of the language in ASCII.
    unused: str = ""  # The ASCII letters that the language uses only in names and foreign words.


WESTERN = (
    Language("éèàêçôîâûùëïœæ", "de la le et les des en un du que est il sur pas ne au", "kw"),
    Language("äüößé", "der die und das ist von zu mit den ein im auf sie er es am"),
    Language("óíáñéúü", "de la el que y los las un por con del una se su en no", "kw"),
    Language("ãçéáíóêõúâàô", "de o a que e do da em um os no na com as se dos ao", "kwy"),
    Language("àèùòéì", "di e il la che un in per una del non da al con le si", "jkwxy"),
    Language("ëéïöóèü", "de het een van en in is op te dat voor hij zij met aan zijn"),
    Language("æøåé", "og i at det er en den til som af for de med et der har"),
    Language("åøæéòô", "og i det er en som til av for at den med et har om ikke"),
    Language("äåöé", "och i att det som en av den med till ett om var har de inte"),
    Language("äöå", "ja on ei se oli kun niin myös hän jo vain kuin joka"),
    Language("ðáíóþöéúæý", "og er um til en sem var hann við eru af að ekki", "cqwz"),
    Language("ðáíóøæúý", "og er eru til ein sum var av ikki hann", "cqwxz"),
    Language("àéèóíçòúïü", "de la el que i els les un amb per del una es en no", "kwy"),
    Language("äõüöšž", "ja on ei et see oli kui ka ning ta oma ma"),
    Language("ëç", "dhe e i se me nga ka do nuk ishte kjo", "w"),
    Language("áéíóú", "an na ar agus is go le i do ag sa", "jkqvwxyz"),
    Language("éïèöçêñ", "the of and to in a is that it was for on as with he be"),
)
CENTRAL = (
    Language(
        "łąęóżśćńź",
        "i w na z do nie to jest od po jak za przy o ale jego co czy by tak bo ma ich tym tego pod a",
        "qvx",
    ),
    Language(
        "áíéěřšžčýůúňťďó",
        "a v na se je z do to s o k po ve od ale jako i mi bude byl by jsem jsme aby jeho tak pak kde jen mu jak u",
        "qwx",
    ),
    Language(
        "áíčéšžýľúťňôäóďĺŕ",
        "a v na sa je z do to s o k po vo od ale ako i mi bol by som sme aby jeho tak kde len mu ich lebo ho",
        "qwx",
    ),
    Language("áéöóőüíúű", "a az egy nem hogy is de meg volt csak ez ki el van mert be le itt ott", "qwx"),
    Language(
        "ăîşţâ",
        "de la cu un o din pe nu este sau mai care ce al le am sa ale lui iar dar era fost ca prin sunt au mi a se",
        "kqwy",
    ),
    Language(
        "čšžćđ",
        "i u je na se da od za su ne o kao do po iz koji mu bi sam smo ali kad jer ga pa a nije to samo bio od",
        "qwxy",
    ),
)
BALTIC = (
    Language(
        "ėšžųčįūąę",
        "ir kad su bet per prie po apie kaip tik pas jau jo jis ji jie nes tai yra buvo ne o ant dar iki nuo ar taip",
        "qwx",
    ),
    Language(
        "āīšēūņļžčķģ", "un ir par no ar lai uz kas bet pie pa tika viņa jau es ja to bija ka nav vai bet ko", "qwxy"
    ),
    Language("äõüöšž", "ja on ei et see oli kui ka ning ta oma ma"),
)
RUSSIAN = Language("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё")
UKRAINIAN = Language("оанивітрескпулдмязбгьйчхжшюцїєщфґ")
BULGARIAN = Language("аоеинтрсвлдкпмзгяъубчцжйхщшфюь")
SERBIAN = Language("аоиенрстујвдкмплзгбчшцћжхњљђџф")
CYRILLIC = (RUSSIAN, UKRAINIAN, BULGARIAN, SERBIAN)
TURKISH = Language("ıüşçğöâî", "bir ve bu da de ne o gibi daha ama en", "qwx")
HEBREW = Language("יוהלארתבשמנםקעדחפטזגכסןצךףץ")
ARABIC = Language("اليمونرتبعدسفهقكحجةشصىأطخضثذزغإظءئؤآ")
THAI = Language("านรอกเงมยลวดทสตะปบคหแจพชขใไโผซศณธษฉฐถภอฟ่้ิีึืุู็ัำา์ๆ")
GREEK = Language("αοιετσνηυρπκμλςάίέόήδγωχθφύβώξζψϊΐϋΰ")


class Charset(NamedTuple):
    languages: tuple[Language, ...]
    rarity: float = 0.0  # The log-probability by which the encoding is rarer than cp1252.


CHARSETS = {  # The candidates. Of two equally probable ones, the first is chosen.
    "cp1252": Charset(WESTERN),
    "cp1250": Charset(CENTRAL, 0.5),
    "cp1251": Charset(CYRILLIC, 0.5),
    "cp1254": Charset((TURKISH,), 1.0),
    "cp1257": Charset(BALTIC, 1.0),
    "cp1253": Charset((GREEK,), 1.0),
    "cp1255": Charset((HEBREW,), 1.0),
    "cp1256": Charset((ARABIC,), 1.0),
    "cp874": Charset((THAI,), 1.0),
    "iso8859-2": Charset(CENTRAL, 2.0),
    "iso8859-15": Charset(WESTERN, 2.0),
    "koi8-r": Charset((RUSSIAN,), 2.0),
    "koi8-u": Charset((UKRAINIAN,), 2.0),
    "cp866": Charset((RUSSIAN, BULGARIAN), 3.0),
    "iso8859-5": Charset(CYRILLIC, 3.0),
    "iso8859-7": Charset((GREEK,), 3.0),
    "iso8859-13": Charset(BALTIC, 3.0),
    "cp850": Charset(WESTERN, 4.0),
    "cp852": Charset(CENTRAL, 4.0),
    "mac_roman": Charset(WESTERN, 4.0),
}
# The first and the last lead byte of an encoding's frequent characters, their lowest second byte, and their number.
FREQUENT = {
    "cp949": (0xB0, 0xC8, 0xA1, 2_350),
    "gb18030": (0xB0, 0xD7, 0xA1, 3_755),
    "big5": (0xA4, 0xC6, 0x40, 5_401),
    "cp932": (0x88, 0x97, 0x40, 2_965),
    "euc_jp": (0xB0, 0xCF, 0xA1, 2_965),
}
JAPANESE = ("cp932", "euc_jp")
# The number of bytes in which frequent characters of Chinese, Japanese and Korean are counted.
EAST_ASIAN_BYTES = 8 << 10
KANA, RARE_CHARACTER, EAST_ASIAN_SIGN = math.log(1 / 50), math.log(1e-5), math.log(1 / 50)
# The increase of the mean log-probability that results from the unequal frequencies of the frequent characters.
ZIPF = 1.2


def language_encoding(data: bytes) -> str | None:
    """Return the Python name of the encoding in which the bytes are text of a known language, or None."""
    means, count = fits(data)
    best = max(means, key=lambda name: means[name], default=None)
    return best if best is not None and means[best] >= LEAST_MEAN - LENIENCE / count else None


def rivals(data: bytes, guess: str) -> list[str]:
    """Return the encodings that are nearly as probable as the guess and give another text, the most probable first."""
    means, count = fits(data)
    text = data.decode(guess, "replace")
    near = [name for name in means if means.get(guess, math.inf) - means[name] < UNCERTAIN / count]
    other = [name for name in near if data.decode(name, "replace") != text]
    return sorted(other, key=lambda name: -means[name])


def fits(data: bytes) -> tuple[dict[str, float], int]:
    """Return the mean log-probability of a character in each encoding, and the number of characters beyond ASCII.

    The result is empty if the data is ASCII or is not text.
    """
    if len(CONTROL.findall(data)) > MOST_CONTROLS * len(data) or data.isascii():
        return {}, 0
    words = b"\n".join(word for word, _ in Counter(NON_ASCII_WORD.findall(data)).most_common(COMPARED_WORDS))
    short = {word.decode() for word in map(bytes.lower, ASCII_WORD.findall(data))}
    plain = Counter(data.lower().translate(None, NO_ASCII_LETTERS).decode())
    first = re.search(rb"[\x80-\xff]", data)
    assert first is not None
    count, sample = bytes_beyond_ascii(words), data[first.start() : first.start() + EAST_ASIAN_BYTES]
    scores = {name: score(words.decode(name, "replace"), charset, short, plain) for name, charset in CHARSETS.items()}
    means = {name: total / count for name, total in scores.items()}
    means |= {name: east_asian_score(sample, name) / bytes_beyond_ascii(sample) for name in FREQUENT}
    # In a text of mostly ASCII, letters of a non-Latin alphabet are less likely.
    if len(data) > MOSTLY_ASCII * bytes_beyond_ascii(data):
        latin = {name for name, charset in CHARSETS.items() if is_latin(charset.languages[0].letters[0])}
        means |= {name: mean - OTHER_ALPHABET / count for name, mean in means.items() if name not in latin}
    return means, count


def bytes_beyond_ascii(data: bytes) -> int:
    return len(data) - len(data.translate(None, bytes(range(0x80, 0x100))))


def score(text: str, charset: Charset, short: set[str], plain: Counter[str]) -> float:
    """Return the log-probability of the characters in the most probable language of the encoding.

    `short` are the short words of the whole text, and `plain` its ASCII letters.
    """
    letters: Counter[str] = Counter()
    total = -charset.rarity
    for before, character, after in zip("\n" + text, text, text[1:] + "\n", strict=False):
        if character.isascii():
            continue
        if character == "\ufffd" or character <= "\x9f":
            total += NO_CHARACTER
        elif character.isalpha() or character in THAI_SIGNS:
            if is_odd(before, character, after):
                total += ODD_PLACE
            else:
                letters[character.lower()] += 1
        elif character not in SIGNS or (before.isalpha() and after.isalpha() and character not in SIGNS_WITHIN_WORDS):
            total += ODD_PLACE
        else:
            total += APOSTROPHE if character == "’" and before.isalpha() else SIGN
    # In Slovak in ISO 8859-2, the letter ť has the code of a closing quotation mark in cp1250.
    total += ODD_PLACE * len(re.findall(r"(?<=[^\W\d_])»", text)) * ("«" not in text)
    return total + max(suitability(language, letters, short, plain) for language in charset.languages)


def suitability(language: Language, letters: Counter[str], short: set[str], plain: Counter[str]) -> float:
    shares = shares_of(language.letters)
    of_letters = sum(count * shares.get(letter, OTHER_LETTER) for letter, count in letters.items())
    of_words = min(MOST_FOR_SHORT_WORDS, SHORT_WORD * len(short.intersection(language.words.split())))
    foreign = sum(plain[letter] for letter in language.unused)
    return of_letters + of_words + max(MOST_FOR_FOREIGN_LETTERS, FOREIGN_LETTER * foreign)


def is_odd(before: str, letter: str, after: str) -> bool:
    """Return True for a capital letter between small letters, two alphabets in a word, or a letter between digits."""
    if before.isdigit() or after.isdigit():
        return True
    if not before.isalpha():
        return is_latin(letter) and not after.isalpha() and letter not in LATIN_WORDS
    return (before.islower() and letter.isupper()) or (before.isascii() and not is_latin(letter))


def is_latin(letter: str) -> bool:
    return letter < "\u0250"


@cache
def shares_of(letters: str) -> dict[str, float]:
    """Return the log-probability of each letter, which is estimated from its rank."""
    weights = [1 / (rank + 2) for rank in range(max(len(letters), FEWEST_LETTERS))]
    return {letter: math.log(weight / sum(weights)) for letter, weight in zip(letters, weights, strict=False)}


def east_asian_score(data: bytes, encoding: str) -> float:
    """Return the log-probability of the characters if the text is Chinese, Japanese or Korean."""
    first, last, second, count = FREQUENT[encoding]
    total = -1.0
    for character in data.decode(encoding, "replace"):
        if character == "\ufffd":
            total += NO_CHARACTER
        elif "\u3041" <= character <= "\u30fc":
            total += KANA if encoding in JAPANESE else RARE_CHARACTER
        elif "\u3000" <= character <= "\u3020" or "\uff01" <= character <= "\uff5e":
            total += EAST_ASIAN_SIGN
        elif not character.isascii():
            code = character.encode(encoding)
            frequent = len(code) == 2 and first <= code[0] <= last and code[1] >= second
            total += ZIPF - math.log(count) if frequent else RARE_CHARACTER
    return total
