"""The generated continuation of a context does not depend on the batch. It ends before the first stop sequence."""

from rnnlm.extensions.harness.generate_until import write_answers
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Sampling, continue_ids
from rnnlm.models.language_model import LanguageModel
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer
from tests.reference_log_probabilities import log_probabilities_of

GREEDY = Sampling(maximum_tokens=12, temperature=0)
CONTEXTS = ["the cat", "the dog sees the bird near the", "", "the fox likes the cat near the house .\n" * 40 + "the"]


def test_batched_answers_equal_those_of_a_slow_loop(model_of_any_kind: LanguageModel, tokenizer: TextTokenizer) -> None:
    together = write_answers(model_of_any_kind, tokenizer, "stream", CONTEXTS, [], GREEDY)
    for context, answer in zip(CONTEXTS, together, strict=True):
        assert write_answers(model_of_any_kind, tokenizer, "stream", [context], [], GREEDY) == [answer]
    first, *others = (tokenizer.encode(line) for line in CONTEXTS[3].split("\n"))
    ids = [BOS, *first, *(token_id for line in others for token_id in [EOS, *line])]
    assert continued(model_of_any_kind, tokenizer, ids, 12) == together[3]
    assert continued(model_of_any_kind, tokenizer, [BOS, *tokenizer.encode("the cat")], 12) == together[0]
    assert len(set(together)) > 1


def continued(model: LanguageModel, tokenizer: TextTokenizer, ids: list[int], tokens: int) -> str:
    """Return the most probable next tokens as text. For each token, a loop reads the whole text again."""
    new: list[int] = []
    for _ in range(tokens):
        new.append(int(log_probabilities_of(model, ids + new)[-1].argmax()))
    text = "".join("\n" if token_id == EOS else f" {tokenizer.decode([token_id])}" for token_id in new)
    return text.replace("\n ", "\n")


def test_a_sentence_ends_with_eos_as_in_our_own_loop(sentence_model: LanguageModel, tokenizer: TextTokenizer) -> None:
    ids = continue_ids(InferenceWeights(sentence_model), [BOS, *tokenizer.encode("the cat")], GREEDY, EOS)
    (answer,) = write_answers(sentence_model, tokenizer, "sentence", ["the cat"], [], GREEDY)
    assert ids[-1] == EOS
    assert answer == " " + tokenizer.decode(ids)


def test_an_answer_ends_before_the_first_stop(stream_model: LanguageModel, tokenizer: TextTokenizer) -> None:
    (free,) = write_answers(stream_model, tokenizer, "stream", ["the cat"], [], GREEDY)
    third = free.split()[2]
    (stopped,) = write_answers(stream_model, tokenizer, "stream", ["the cat"], ["nowhere", third, ""], GREEDY)
    assert stopped == free[: free.index(third)]
    assert stopped.strip()
