"""The tokenizer stage, which trains a tokenizer on the training split or loads a pretrained one, and saves it."""

import json
import math
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tokenizers import Tokenizer, processors

from rnnlm.config import TokenizerConfig
from rnnlm.corpora.splits import byte_ranges, documents_in
from rnnlm.runtime.engines import OpenEngine, in_this_process
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.records import CorpusRecord, TokenizerRecord
from rnnlm.storage.stages import stage, stage_key, write_once
from rnnlm.tokenizers.pretrained import load_pretrained
from rnnlm.tokenizers.saved_tokenizer import PRETRAINED_PREFIX
from rnnlm.tokenizers.subwords import train_bpe, train_unigram
from rnnlm.tokenizers.text_tokenizer import BOS, SETTINGS_FILE
from rnnlm.tokenizers.vocabularies import train_vocabulary
from rnnlm.tokenizers.word_counts import count_corpus

SUBWORD_TRAINERS = {"bpe": train_bpe, "unigram": train_unigram}
SMALLEST_DEFAULT_VOCABULARY, LARGEST_DEFAULT_VOCABULARY = 512, 8_000
# The default vocabulary size of subwords is SUBWORDS_OF_ONE_BYTE * √(bytes of the text).
SUBWORDS_OF_ONE_BYTE = 4.0
PIECE_BYTES = 256 << 10  # The size in bytes of each excerpt of a large corpus on which subwords are trained.


@stage("tokenizer")
def train_tokenizer(
    home: Home,
    corpus: CorpusRecord,
    config: TokenizerConfig,
    *,
    force: bool = False,
    open_engine: OpenEngine = in_this_process,
) -> TokenizerRecord:
    """Train a tokenizer, unless it exists under home.tokenizers.

    The name of its folder is the digest of everything on which it depends. A pretrained tokenizer depends only on its
    content, not on its location.
    """
    config = with_vocabulary_size(config, text_bytes(corpus))
    pretrained: Tokenizer | None = None
    if config.kind.startswith(PRETRAINED_PREFIX):
        pretrained = load_pretrained(config.kind.removeprefix(PRETRAINED_PREFIX))
        depends: dict[str, object] = {"pretrained": pretrained.to_str()}
    else:
        depends = {
            "corpus": corpus.digest,
            "shares": corpus.split_rule,
            "tokenizer": config.model_dump(mode="json"),
        }
    digest = stage_key("tokenizer", tokenizers=version("tokenizers"), **depends)
    folder, count_folder = home.tokenizers / digest[:16], home.shards / digest[:16]

    def build(partial: Path) -> None:
        if pretrained is not None:
            tokenizer = pretrained
        elif config.kind in SUBWORD_TRAINERS:
            tokenizer = SUBWORD_TRAINERS[config.kind](training_lines(corpus, config.training_bytes), config)
        else:
            tokenizer = train_vocabulary(count_corpus(corpus, config, count_folder, open_engine), config)
        save(tokenizer, config, partial)

    skipped = write_once(home, folder, build, force=force, pieces=count_folder)
    size = read_json(folder / SETTINGS_FILE)["vocabulary_size"]
    return TokenizerRecord(digest=digest, folder=folder, kind=config.kind, vocabulary_size=size, skipped=skipped)


def text_bytes(corpus: CorpusRecord) -> int:
    return corpus.sample.byte_count if corpus.sample else corpus.corpus_bytes


def with_vocabulary_size(config: TokenizerConfig, byte_count: int) -> TokenizerConfig:
    """Return the configuration with the default vocabulary size if none is configured.

    The default is 8,000. For subwords of a text below 4 MB it is 4 √bytes, but at least 512, because a subword that
    occurs only a few times hardly lowers the loss; docs/reference/corpora.md has the measurements.
    """
    if config.vocabulary_size is not None:
        return config
    size = LARGEST_DEFAULT_VOCABULARY
    if config.kind in SUBWORD_TRAINERS:
        size = min(size, max(SMALLEST_DEFAULT_VOCABULARY, round(SUBWORDS_OF_ONE_BYTE * math.sqrt(byte_count))))
    return config.model_copy(update={"vocabulary_size": size})


def training_lines(corpus: CorpusRecord, byte_limit: int) -> Iterator[str]:
    """Yield the lines of the training documents. If the text exceeds byte_limit, yield evenly spaced excerpts.

    Only the excerpts are read, so that the duration does not grow with the corpus.
    """
    size = text_bytes(corpus)
    share = min(1.0, byte_limit / size)
    for byte_range in byte_ranges(corpus, size if share == 1.0 else int(PIECE_BYTES / share)):
        end = byte_range.byte_offset + share * byte_range.byte_count
        for document in documents_in(corpus, byte_range):
            if document.byte_offset >= end:
                break
            if document.split == "train":
                yield from document.lines


def save(tokenizer: Tokenizer, config: TokenizerConfig, folder: Path) -> None:
    """Write the tokenizer's files for AutoTokenizer, and SETTINGS_FILE."""
    from transformers import PreTrainedTokenizerFast

    pad, unk, bos, eos = (tokenizer.id_to_token(token_id) for token_id in range(4))
    # This post-processor is used only if a caller requests special tokens, as the pipelines of transformers do. Texts
    # then begin with <bos>, as in rnnlm's own generation.
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[bos, "$A"], pair=[bos, "$A", "$B"], special_tokens=[(bos, BOS)]
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        unk_token=unk,
        bos_token=bos,
        eos_token=eos,
        padding_side="left",
        split_special_tokens=True,  # Text that is spelled like a special token is encoded as ordinary text.
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
            "splitting": config.splitting,
            "unknown_literal": config.unknown_literal if config.kind == "word" else None,
            "vocabulary_size": tokenizer.get_vocab_size(),
        },
    )
