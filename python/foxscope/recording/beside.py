"""Writes layers of a GPU beside the model, which goes on meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .arrays import torch_module

#: Layers that may wait to be written.
_MOST_WAITING = 2


class Beside:
    """Work in the order in which it came, in a thread and a stream of the GPU of its own."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self._streams: dict[Any, Any] = {}

    def submit(self, work: Callable[[], None], device: Any) -> None:
        """Does work that reads tensors of a device which are made by now. Raises what earlier work raised that is done or
        makes room.
        """
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= _MOST_WAITING):
            self._waiting.popleft().result()
        self._thread = self._thread or ThreadPoolExecutor(1, "foxscope.record")
        self._waiting.append(self._thread.submit(self._run, work, device))

    def _run(self, work: Callable[[], None], device: Any) -> None:
        if device.type != "cuda":
            work()
            return
        torch = torch_module()
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        stream = self._streams[device]
        with torch.no_grad(), torch.cuda.stream(stream):
            try:
                work()
            finally:
                stream.synchronize()  # no memory of what it read is used again before

    def join(self) -> None:
        """Waits for all work. Raises what the first that failed raised."""
        try:
            while self._waiting:
                self._waiting.popleft().result()
        finally:
            self.end()

    def end(self) -> None:
        """Waits for what runs, leaves out what has not begun, and ends the thread."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
        self._waiting.clear()
