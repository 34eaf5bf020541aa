"""Our models as EleutherAI's harness knows models, under the name `rnnlm` there. Needs the extra `lm-eval`.

    import lm_eval, rnnlm.harness.language_model
    lm_eval.simple_evaluate("rnnlm", {"model": "models:/rnnlm-python-docs@champion"}, tasks=["wikitext"])

Importing this registers the class with the harness.
"""

import json
from collections import defaultdict
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs

from rnnlm.generation.sampling import Sampling
from rnnlm.harness.generate_until import write_answers
from rnnlm.harness.loglikelihood import continuation_of, score_continuations, text_log_likelihoods
from rnnlm.home import find_home
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.registry.model_lookup import model_folder
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

BATCH_SIZE = 64
MAXIMUM_TOKENS = 256  # of an answer, where the task does not say


@register_model("rnnlm")
class RecurrentLM(LM):
    """A model of ours. Its state is carried through a whole text: there is no `max_length` to cut it at."""

    def __init__(
        self,
        model: str,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        """model: as for every command: a run folder, a run id, models:/NAME@ALIAS."""
        super().__init__()
        folder = model_folder(find_home(), model)
        self.model = load_model(folder, device or "cpu").language_model
        self.text_tokenizer = load_tokenizer(folder)  # `tokenizer` would mean one of transformers'
        self.cut = read_training_provenance(folder).cut
        self.batch_size = BATCH_SIZE if batch_size is None or batch_size == "auto" else int(batch_size)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Of each (context, continuation): log-probability of the continuation, and whether it is the greedy one."""
        asked = [continuation_of(self.text_tokenizer, self.cut, *request.args) for request in requests]
        return score_continuations(self.model, asked, self.batch_size)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log-probability of each whole text."""
        texts = [request.args[0] for request in requests]
        return text_log_likelihoods(self.model, self.text_tokenizer, self.cut, texts, self.batch_size)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """What the model writes after each context; contexts with the same settings are continued together."""
        alike: dict[str, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            alike[json.dumps(request.args[1], sort_keys=True)].append(index)
        answers = [""] * len(requests)
        for settings, indices in alike.items():
            stops, sampling = asked_for(json.loads(settings))
            indices.sort(key=lambda index: len(requests[index].args[0]))  # little padding
            for first in range(0, len(indices), self.batch_size):
                batch = indices[first : first + self.batch_size]
                contexts = [requests[index].args[0] for index in batch]
                written = write_answers(self.model, self.text_tokenizer, self.cut.mode, contexts, stops, sampling)
                for index, text in zip(batch, written, strict=True):
                    answers[index] = text
        return answers


def asked_for(settings: dict[str, Any]) -> tuple[list[str], Sampling]:
    """Where to stop, and how to draw, by the harness's own reading of a task's generation_kwargs."""
    normal = normalize_gen_kwargs(settings, MAXIMUM_TOKENS)
    sampling = Sampling(
        maximum_tokens=normal["max_gen_toks"],
        temperature=float(normal.get("temperature") or 0.0) if normal["do_sample"] else 0.0,
        top_k=int(normal.get("top_k") or 0),
        top_p=float(normal.get("top_p") or 1.0),
    )
    return normal["until"], sampling
