"""The device with the configured name is chosen. GPUs multiply matrices in the configured precision."""

import subprocess
import sys

import pytest
import torch

from rnnlm.errors import DeviceError
from rnnlm.models.devices import choose_device, float32_products, to_device
from rnnlm.models.dropout import Masks


@pytest.mark.parametrize(("precision", "expected"), [("float32", "ieee"), ("bfloat16", "tf32")])
def test_float32_products_are_as_precise_as_configured_and_only_while_training(precision: str, expected: str) -> None:
    backends = (torch.backends.cudnn.rnn, torch.backends.cuda.matmul)
    before = [backend.fp32_precision for backend in backends]
    with pytest.raises(KeyboardInterrupt), float32_products(precision):
        assert [backend.fp32_precision for backend in backends] == [expected, expected]
        raise KeyboardInterrupt
    assert [backend.fp32_precision for backend in backends] == before


FAULTS = """
import resource, torch
from rnnlm.models.devices import keep_freed_memory
{setting}
for step in range(40):
    if step == 20:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(1 << 24)  # 64 MiB, freed at once
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
@pytest.mark.slow
def test_freed_memory_stays_for_the_next_step() -> None:
    faults = {
        setting: int(
            subprocess.run([sys.executable, "-c", FAULTS.format(setting=setting)], stdout=-1, check=True).stdout
        )
        for setting in ("", "keep_freed_memory()")
    }
    # There are few page faults, although the 20 arrays have 327,680 pages.
    assert faults["keep_freed_memory()"] < 1_000
    assert faults[""] > 100_000


def test_a_named_device_that_is_absent_is_refused_in_one_line() -> None:
    absent = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(DeviceError, match=f"{absent}: this machine has no such device; available: .*cpu") as caught:
        choose_device(absent)
    assert len(str(caught.value).splitlines()) == 1


def test_every_tensor_of_a_step_is_sent() -> None:
    """All tensors of a step are sent to the device: dataclass fields, and the items of tuples and a dictionary.

    The device `meta` needs no memory.
    """
    masks = Masks(torch.ones(4), None, (torch.ones(2), torch.ones(3)), None, {"cells.0.U": torch.ones(5)})
    sent = to_device(masks, torch.device("meta"))
    assert (sent.inputs, sent.outputs) == (None, None)
    assert sent.words is not None
    assert {tensor.device.type for tensor in (sent.words, *sent.layers, *sent.recurrent.values())} == {"meta"}
    assert [tensor.numel() for tensor in (sent.words, *sent.layers, *sent.recurrent.values())] == [4, 2, 3, 5]
    assert masks.words is not None
    assert masks.words.device.type == "cpu"
