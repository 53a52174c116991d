"""A call of a layer whose numbers are being read, until it is known that they are right and they can be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .arrays import Float64, Tensor, is_torch
from .call import PARTS, Call, check_numbers, look_for_not_finite, measure_numbers
from .layers import Numbers, meta, written_parts
from .operator_check import Comparison, has_last_rows, judge, measure, settled
from .readings import Readings, to_host


@dataclass
class Taken:
    """A call, and what is to be written of it.

    call       its tensors, which the model may write over
    kept       the parts that are written, copied where the model goes on meanwhile, and shapes of the others
    last_key   keys of the last position, [H_k, d], of softmax attention
    """

    layer: int
    module: str
    call: Call
    kept: Call
    last_key: Tensor | None
    readings: Readings
    short: Call | None

    @property
    def where(self) -> str:
        """Words for errors."""
        return f"layer {self.layer}"

    def examine(self) -> Comparison | None:
        """Waits for the readings. Raises FoxscopeError where a number or the operator is wrong."""
        found: Mapping[str, Float64] = settled(self.readings.take())
        check_numbers(self.call, found, self.where)
        if any(not np.isfinite(found[name]).all() for name in ("last errors", "last spread") if name in found):
            look_for_not_finite(self.call, ("k", "v"), self.where)
        return None if self.short is None else judge(self.call, self.short, found, self.where)


def take(layer: int, module: str, call: Call, numbers: Numbers, check: bool, beside: bool) -> Taken:
    """Begins to read the numbers of a call, where its tensors lie, and waits for nothing.

    check    whether its operator is compared with its output
    beside   whether the model goes on while the call is written
    """
    readings = Readings()
    short = measure(call, readings) if check else None
    measure_numbers(call, readings, _seen_elsewhere(call, numbers) if short is not None else ())
    last_key = _copy(call.k[:, -1]) if call.mixer == "attention" else None
    kept = _kept(call, numbers) if beside else call
    readings.send()  # the last work: where readings have come, the copies have too
    return Taken(layer, module, call, kept, last_key, readings, short)


def _seen_elsewhere(call: Call, numbers: Numbers) -> set[str]:
    """The parts of a call that is compared with its output of which other readings show a number that is not finite.

    Of softmax attention the last rows hold all values, and the logits of all keys unless there is a window. A row of the output
    holds its query, and that of a linear mixer all that its state was made of. The sizes of queries and keys are read where
    these are written, as logits have to be numbers of float32.
    """
    if call.mixer != "attention":
        return set() if "qk" in numbers.keep else {"q", "k", "v", "beta", "erase_read", "erase_write"}
    if not has_last_rows(call):
        return set()
    if "qk" in numbers.keep:
        return {"v"}
    return {"q", "v"} if call.window > 0 else {"q", "k", "v"}


def _copy(part: Tensor) -> Tensor:
    return part.clone() if is_torch(part) else part.copy()


def _kept(call: Call, numbers: Numbers) -> Call:
    """Copies of the parts that are written. Gates of heads, which are small, go to the host."""
    written = written_parts(call, numbers.keep)
    parts: dict[str, Any] = {}
    for name in PARTS:
        part = getattr(call, name)
        if part is None:
            continue
        if name not in written:
            parts[name] = meta(part)
        elif name == "log_decay" and part.ndim == 2:
            parts[name] = to_host(part)
        else:
            parts[name] = _copy(part)
    return replace(call, **parts)
