"""Two ways to cut a corpus into rows of token ids: by sentence, or as one running stream."""

from collections.abc import Iterator

from rnnlm.config import SequencesConfig
from rnnlm.tokenizers.face import BOS, EOS

Row = list[int]


class SentenceCutter:
    """Each line a row: `<bos>` before it as context, `<eos>` after it to predict.

    A line of more predicted tokens than `context_length` becomes consecutive rows that overlap by one
    token, so that each token is predicted once. A blank line is no sentence and gives no row.
    """

    def __init__(self, config: SequencesConfig) -> None:
        self.length = config.context_length

    def add(self, lines: list[list[int]]) -> Iterator[Row]:
        for line in lines:
            if line:
                ids = [BOS, *line, EOS]
                for start in range(0, len(ids) - 1, self.length):
                    yield ids[start : start + self.length + 1]

    def finish(self) -> Iterator[Row]:
        return iter(())

    def predicted(self, lines: list[list[int]]) -> int:
        """How many tokens of these lines are predicted."""
        return sum(len(line) + 1 for line in lines if line)


class StreamCutter:
    """One running text, `<eos>` for each line's end, as ordered blocks that overlap by one token.

    The stream begins with `<bos>`, context for its first token.
    """

    def __init__(self, config: SequencesConfig) -> None:
        self.length = config.block_length
        self.waiting: Row = [BOS]

    def add(self, lines: list[list[int]]) -> Iterator[Row]:
        for line in lines:
            self.waiting += [*line, EOS]
        while len(self.waiting) > self.length + 1:
            yield self.waiting[: self.length + 1]
            self.waiting = self.waiting[self.length :]

    def finish(self) -> Iterator[Row]:
        if len(self.waiting) > 1:
            yield self.waiting

    def predicted(self, lines: list[list[int]]) -> int:
        return sum(len(line) + 1 for line in lines)


def cutter(config: SequencesConfig) -> SentenceCutter | StreamCutter:
    return SentenceCutter(config) if config.mode == "sentence" else StreamCutter(config)
