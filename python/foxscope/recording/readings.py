"""Few numbers that a device computes of a layer, which come to the host later."""

from __future__ import annotations

from typing import Any

from .arrays import Float64, Tensor, is_torch, to_float64, torch_module


class Readings:
    """Small arrays by name. Those of a GPU come in one copy behind the work that makes them, and nothing waits for it."""

    def __init__(self) -> None:
        self._parts: dict[str, Tensor] = {}
        self._host: Any = None
        self._sent: Any = None

    def add(self, name: str, part: Tensor) -> None:
        """Adds an array, of numpy or of torch."""
        self._parts[name] = part

    def send(self) -> None:
        """Begins the copy to the host."""
        if not any(is_torch(part) and part.device.type == "cuda" for part in self._parts.values()):
            return
        torch = torch_module()
        numbers = torch.cat([part.reshape(-1) for part in self._parts.values()])
        self._host = to_host(numbers)
        self._parts = {name: torch.empty(part.shape, device="meta") for name, part in self._parts.items()}
        self._sent = torch.cuda.Event()
        self._sent.record(torch.cuda.current_stream(numbers.device))

    def have_come(self) -> bool:
        """Whether `take` would not wait."""
        return self._sent is None or bool(self._sent.query())

    def take(self) -> dict[str, Float64]:
        """The arrays, in the shapes that they had, as float64. Waits for those of a GPU."""
        if self._sent is None:
            return {name: to_float64(part) for name, part in self._parts.items()}
        self._sent.synchronize()
        found, begin, numbers = {}, 0, to_float64(self._host)
        for name, part in self._parts.items():
            found[name] = numbers[begin : begin + part.numel()].reshape(part.shape)
            begin += part.numel()
        return found


def to_host(part: Tensor) -> Tensor:
    """A copy of a tensor in host memory. That of a GPU's comes behind the work of its stream, and nothing waits for it."""
    if part.device.type != "cuda":
        return part.clone()
    torch = torch_module()
    host = torch.empty(part.shape, dtype=part.dtype, device="cpu", pin_memory=True)
    host.copy_(part, non_blocking=True)
    return host


def to_device(part: Tensor, device: Any) -> Tensor:
    """A copy of a tensor of the host on a device. A GPU's comes behind the work of its stream, and nothing waits for it."""
    if device.type != "cuda":
        return part.to(device)
    return part.pin_memory().to(device, non_blocking=True)
