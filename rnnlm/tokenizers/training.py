"""A vocabulary learnt from the training split alone, saved so that AutoTokenizer loads it."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from rnnlm.config import CorpusConfig, TokenizerConfig
from rnnlm.corpora.splits import documents
from rnnlm.home import Home, digest_of, read_json, write_json, write_once
from rnnlm.records import CorpusRecord, TokenizerRecord
from rnnlm.stages import stage
from rnnlm.tokenizers.face import SETTINGS_FILE, SPECIAL_TOKENS

STAGE_VERSION = 1


@stage("tokenizer")
def train_tokenizer(
    home: Home,
    corpus: CorpusRecord,
    corpus_config: CorpusConfig,
    config: TokenizerConfig,
    *,
    force: bool = False,
) -> TokenizerRecord:
    """A tokenizer under home.tokenizers, named by the digest of all that it depends on."""
    digest = digest_of(
        {
            "stage": STAGE_VERSION,
            "corpus": corpus.digest,
            "shares": [corpus_config.valid_share, corpus_config.test_share],
            "tokenizer": config.model_dump(mode="json"),
            "tokenizers": version("tokenizers"),
        }
    )
    folder = home.tokenizers / digest[:16]

    def build(partial: Path) -> None:
        lines = training_lines(corpus, corpus_config)
        tokenizer = train_words(lines, config) if config.kind == "word" else train_bytes(lines, config)
        save(tokenizer, config, partial)

    skipped = write_once(home, folder, build, force=force)
    size = read_json(folder / SETTINGS_FILE)["vocabulary_size"]
    return TokenizerRecord(digest=digest, folder=folder, kind=config.kind, vocabulary_size=size, skipped=skipped)


def training_lines(corpus: CorpusRecord, corpus_config: CorpusConfig) -> Iterator[str]:
    for document in documents(corpus, corpus_config):
        if document.split == "train":
            yield from document.text.split("\n")


def train_words(lines: Iterator[str], config: TokenizerConfig) -> Tokenizer:
    """Words between white space; ids by falling count, ties by spelling, after the four special tokens."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split())
    for word in (*SPECIAL_TOKENS, config.unknown_literal):
        counts.pop(str(word), None)
    frequent = sorted(
        (word for word, count in counts.items() if count >= config.minimum_count),
        key=lambda word: (-counts[word], word),
    )
    words = [*SPECIAL_TOKENS, *frequent][: config.vocabulary_size]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    # A normaliser, because it travels inside tokenizer.json: text never spells a special token.
    never = [re.escape(word) for word in ("<pad>", "<bos>", "<eos>", config.unknown_literal) if word]
    tokenizer.normalizer = normalizers.Replace(Regex(rf"(?<!\S)({'|'.join(never)})(?!\S)"), "<unk>")
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def train_bytes(lines: Iterator[str], config: TokenizerConfig) -> Tokenizer:
    """Byte-level byte-pair encoding (Sennrich et al. 2016; bytes after GPT-2): spells every text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary_size,
        min_frequency=config.minimum_count,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, config: TokenizerConfig, folder: Path) -> None:
    """Files for AutoTokenizer, and ours beside them."""
    from transformers import PreTrainedTokenizerFast

    pad, unk, bos, eos = SPECIAL_TOKENS
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        unk_token=unk,
        bos_token=bos,
        eos_token=eos,
        padding_side="left",
        split_special_tokens=True,  # a special token's spelling in text stays text
        clean_up_tokenization_spaces=False,
    )
    wrapped.save_pretrained(folder)
    settings_path = folder / "tokenizer_config.json"
    settings = json.loads(settings_path.read_text(encoding="utf-8"))
    settings_path.write_text(json.dumps(settings | {"split_special_tokens": True}, indent=2, sort_keys=True) + "\n")
    write_json(
        folder / SETTINGS_FILE,
        {
            "kind": config.kind,
            "unknown_literal": config.unknown_literal if config.kind == "word" else None,
            "vocabulary_size": tokenizer.get_vocab_size(),
        },
    )
