"""Where training runs."""

import torch

from rnnlm.errors import DeviceError


def choose_device(name: str) -> torch.device:
    """`auto`: cuda, else mps, else cpu. DeviceError where a named device is absent."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, there in present.items() if there))
    if not present[name]:
        there = ", ".join(device for device, there in present.items() if there)
        raise DeviceError(f"training.device: {name} is not on this machine; there is: {there} (or auto)")
    return torch.device(name)
