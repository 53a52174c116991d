"""Losses of tokens, of a model's logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import FoxscopeError
from .arrays import Float64, Tensor, is_torch, to_float32, to_float64, torch_module
from .readings import Readings, to_device

#: Logits of a piece: those that stay in a processor's cache, and those that keep a GPU busy.
PIECE, GPU_PIECE = 1 << 19, 1 << 25


def read_losses(logits: Tensor, targets: Any) -> Readings:
    """Log sum exp of each row minus the logit of its target, nats, as the reading "loss" [n]. They are made in float32
    where the logits lie, a piece at a time, and a GPU is not waited for.

    logits   [n, V] of any dtype
    targets  [n] of int32; where one is not known, -1, the loss is the mean over the model's own prediction, its entropy: a
             row has to have a finite loss
    """
    readings = Readings()
    known = np.maximum(targets, 0).astype(np.int64)
    unknown = np.flatnonzero(targets < 0)
    losses = _losses_of_torch(logits, known) if is_torch(logits) else _losses_of_numpy(logits, known)
    for row in unknown:
        losses[int(row)] = _entropy(logits[int(row)])
    readings.add("loss", losses)
    readings.send()
    return readings


def _losses_of_torch(logits: Tensor, known: Any) -> Tensor:
    torch = torch_module()
    rows = max(1, (PIECE if logits.device.type == "cpu" else GPU_PIECE) // int(logits.shape[1]))
    index = to_device(torch.from_numpy(known)[:, None], logits.device)
    losses = torch.empty(len(known), dtype=torch.float32, device=logits.device)
    for begin in range(0, len(known), rows):
        log_p = torch.log_softmax(logits[begin : begin + rows], 1, dtype=torch.float32)
        torch.neg(log_p.gather(1, index[begin : begin + rows])[:, 0], out=losses[begin : begin + rows])
    return losses


def _losses_of_numpy(logits: Tensor, known: Any) -> Tensor:
    losses = np.empty(len(known))
    rows = max(1, PIECE // int(logits.shape[1]))
    for begin in range(0, len(known), rows):
        piece, of = to_float32(logits[begin : begin + rows]), known[begin : begin + rows]
        largest = piece.max(axis=1)
        total = np.log(np.exp(piece - largest[:, None]).sum(axis=1, dtype=np.float64)) + largest
        losses[begin : begin + rows] = total - piece[np.arange(len(of)), of]
    return losses


def _entropy(logits: Tensor) -> Tensor:
    """The entropy of a row's prediction, nats, beside it. A logit of -infinity adds nothing."""
    if is_torch(logits):
        torch = torch_module()
        log_p = torch.log_softmax(logits, 0, dtype=torch.float32)
        return torch.special.entr(log_p.exp()).sum()
    numbers = to_float64(logits)
    p = np.exp(numbers - numbers.max())
    p /= p.sum()
    return -(p * np.log(np.where(p > 0, p, 1))).sum()


def finite_losses(begin: int, readings: Readings) -> Float64:
    """The losses of the positions from `begin` on, [n] nats."""
    losses = readings.take()["loss"]
    if not np.isfinite(losses).all():
        raise FoxscopeError(f"rec.logits: not finite at position {begin + int(np.argmin(np.isfinite(losses)))}")
    return losses
