"""The model class that is registered with EleutherAI's harness under the name `rnnlm`.

This module needs the `lm-eval` extra.

    import lm_eval, rnnlm.extensions.harness.recurrent_lm
    lm_eval.simple_evaluate("rnnlm", {"model": "models:/rnnlm-python-docs@champion"}, tasks=["wikitext"])

Importing this module registers the class.
"""

from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import Collator, normalize_gen_kwargs

from rnnlm.extensions.harness.generate_until import write_answers
from rnnlm.extensions.harness.loglikelihood import continuation_rows, score_continuations, text_log_likelihoods
from rnnlm.generation.sampling import Sampling
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.registry.model_lookup import model_folder
from rnnlm.storage.home import find_home
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

DEFAULT_BATCH_SIZE = 64
DEFAULT_ANSWER_TOKENS = 256  # The largest number of generated tokens for tasks that do not set a limit.


@register_model("rnnlm")
class RecurrentLM(LM):
    """A recurrent model for the harness. It has no `max_length`, because it can read texts of any length."""

    def __init__(
        self,
        model: str,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        """Load a model, which is given as a run folder, a run id or models:/NAME@ALIAS."""
        super().__init__()
        folder = model_folder(find_home(), model)
        self.model = load_model(folder, device or "cpu")
        # The attribute is not named `tokenizer`, because the harness expects a tokenizer of transformers under that
        # name.
        self.text_tokenizer = load_tokenizer(folder)
        self.cut = read_training_provenance(folder).cut
        self.batch_size = DEFAULT_BATCH_SIZE if batch_size is None or batch_size == "auto" else int(batch_size)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return the log-probability of each continuation in nats, and True if greedy decoding would generate it."""
        rows = [continuation_rows(self.text_tokenizer, self.cut, *request.args) for request in requests]
        return score_continuations(self.model, rows, self.batch_size)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Return the log-probability of each whole text in nats."""
        texts = [request.args[0] for request in requests]
        return text_log_likelihoods(self.model, self.text_tokenizer, self.cut, texts, self.batch_size)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return the model's answer to each context. Contexts with the same settings share a batch."""
        in_batches = Collator(
            [request.args for request in requests],
            sort_fn=lambda arguments: len(arguments[0]),  # Contexts of similar length need less padding in a batch.
            group_fn=lambda arguments: arguments[1],
            group_by="gen_kwargs",
        )
        answers: list[str] = []
        for batch in in_batches.get_batched(self.batch_size):
            contexts = [context for context, _ in batch]
            stops, sampling = stops_and_sampling(batch[0][1])
            answers += write_answers(self.model, self.text_tokenizer, self.cut.mode, contexts, stops, sampling)
        return list(in_batches.get_original(answers))


def stops_and_sampling(settings: dict[str, Any]) -> tuple[list[str], Sampling]:
    """Return the stop sequences and sampling settings of a task's generation_kwargs.

    The settings have the same meaning as for the harness's own models.
    """
    normal = normalize_gen_kwargs(settings, DEFAULT_ANSWER_TOKENS)
    sampling = Sampling(
        maximum_tokens=normal["max_gen_toks"],
        temperature=float(normal.get("temperature") or 0.0) if normal["do_sample"] else 0.0,
        top_k=int(normal.get("top_k") or 0),
        top_p=float(normal.get("top_p") or 1.0),
    )
    return normal["until"], sampling
