"""Sentences whose words depend on earlier words, so that a trained model continues each prompt differently."""

import random
from pathlib import Path

NAMES = ["anna", "boris", "clara", "david", "edith", "felix"]
VERBS = ["takes", "finds", "hides", "paints", "sells", "wants"]
COLOURS = ["black", "green", "red", "white", "yellow"]
THINGS = ["boat", "book", "chair", "clock", "flute", "lamp", "mirror", "stone"]
PLACES = ["attic", "cellar", "garden", "harbour", "kitchen", "market"]


def favour(draw: random.Random, words: list[str], first: int) -> str:
    """Return a random word of the list. The last word is followed by the first.

    The word at `first` is returned in half of all cases, the next word in a quarter of all cases, and so on.
    """
    turned = [words[(first + step) % len(words)] for step in range(len(words))]
    return draw.choices(turned, weights=[2.0**-step for step in range(len(words))])[0]


def sentence(draw: random.Random) -> str:
    name = draw.choice(NAMES)
    verb = favour(draw, VERBS, NAMES.index(name))
    colour = favour(draw, COLOURS, VERBS.index(verb))
    thing = favour(draw, THINGS, COLOURS.index(colour) + NAMES.index(name))
    place = favour(draw, PLACES, THINGS.index(thing))
    words = [name, verb, "the", colour, thing, "in", "the", place]
    if draw.random() < 0.4:
        words += ["and", favour(draw, NAMES, NAMES.index(name) + 1), "knows"]
    return " ".join([*words, "."])


def write_stories(folder: Path) -> Path:
    draw = random.Random(7)
    folder.mkdir(parents=True)
    for split, count in (("train", 2_000), ("valid", 100), ("test", 100)):
        lines = [sentence(draw) for _ in range(count)]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
