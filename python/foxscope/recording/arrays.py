"""Numbers of torch tensors and numpy arrays, piece by piece, as a run file holds them.

Neither torch nor a GPU is needed: torch is looked at only where a program has imported it.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FoxscopeError

#: A torch tensor or whatever numpy takes. Heads come first: [H, L, d] or [H, L].
Tensor = Any
Float64 = npt.NDArray[np.float64]

#: The largest number of float32, in which the program multiplies queries and keys.
MOST_FLOAT32 = float(np.finfo(np.float32).max)

#: Unit roundoff of the formats in which models compute.
ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def torch_module() -> Any:
    """The module torch, which the program has imported where there are its tensors."""
    return sys.modules["torch"]


def is_torch(value: object) -> bool:
    """Whether a value is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def library(value: Tensor) -> Any:
    """The module whose functions take an array: torch or numpy."""
    return torch_module() if is_torch(value) else np


@contextlib.contextmanager
def own_settings(value: Tensor) -> Iterator[None]:
    """Where products of float32 on the device of an array stay products of float32, whatever autocast the model runs in, and
    sums are made although they may not be the same to the last bit each time.
    """
    if not is_torch(value):
        yield
        return
    torch = torch_module()
    strict, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.autocast(value.device.type, enabled=False):
        if strict:
            torch.use_deterministic_algorithms(False)
        try:
            yield
        finally:
            if strict:
                torch.use_deterministic_algorithms(True, warn_only=warns)


def as_tensor(value: Tensor, name: str) -> Tensor:
    """A torch tensor detached from its graph, or a numpy array.

    Raises FoxscopeError for what has no numbers: fake and meta tensors, and lists that are no array. Raises it too for numbers
    that attention does not read as they stand: complex ones and truth values, float8, sparse, nested and masked arrays.
    """
    if is_torch(value):
        _check_torch(value, name)
        if value.device.type == "meta" or type(value).__name__ == "FakeTensor":
            raise FoxscopeError(f"{name} has no numbers (it is on the meta device): run the model on a real device")
        if torch_module()._C._functorch.is_functorch_wrapped_tensor(value):
            raise FoxscopeError(f"{name} has no numbers of its own within torch.func (vmap, grad): run the model without")
        return value.detach()
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise FoxscopeError(
            f"{name} is masked in {int(np.ma.getmaskarray(value).sum())} places: pass the numbers that attention read there"
        )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise FoxscopeError(f"{name} is no array of numbers ({error})") from error
    real = np.issubdtype(array.dtype, np.number) and not np.issubdtype(array.dtype, np.complexfloating)
    if not (real or array.dtype.name == "bfloat16"):
        if array.dtype == object:
            part = name.rsplit(maxsplit=1)[-1]
            remedy = f": pass its {part}" if hasattr(value, part) else ""
            raise FoxscopeError(f"{name} is no array of real numbers but {type(value).__name__}{remedy}")
        raise FoxscopeError(f"{name} is no array of real numbers but of {array.dtype}")
    return array


def _check_torch(value: Any, name: str) -> None:
    torch = torch_module()
    if value.is_nested:
        raise FoxscopeError(f"{name} is a nested tensor: pass one sequence of it, as {name.rsplit(maxsplit=1)[-1]}[0]")
    if value.layout != torch.strided:
        raise FoxscopeError(f"{name} is of layout {value.layout}: pass {name.rsplit(maxsplit=1)[-1]}.to_dense()")
    dtype = dtype_of(value)
    if value.is_complex() or value.dtype == torch.bool:
        raise FoxscopeError(f"{name} is no array of real numbers but of {dtype}")
    if value.is_quantized or (value.is_floating_point() and dtype not in ROUNDING):
        raise FoxscopeError(
            f"{name} is of {dtype}: pass the numbers that it stands for, with its scale, in float32 or bfloat16"
        )


def dtype_of(value: Tensor) -> str:
    """The dtype as a word: float32, bfloat16 and so on."""
    return str(value.dtype).removeprefix("torch.")


def device_of(value: Tensor) -> str:
    """The device as a word: cpu, cuda:0 and so on."""
    return str(value.device) if is_torch(value) else "cpu"


def shape_of(value: Tensor) -> list[int]:
    """Extents as a list, which prints as people write them."""
    return [int(extent) for extent in value.shape]


def to_float32(value: Tensor) -> Tensor:
    """The same numbers in float32, of the same library and on the same device."""
    return value.float() if is_torch(value) else value.astype(np.float32)


def to_float64(value: Tensor) -> Float64:
    """The same numbers in float64, in host memory."""
    if is_torch(value):
        if value.device.type == "cuda":  # not every device has float64
            value = value.double()
        elif value.dtype == torch_module().bfloat16:  # numpy has none
            value = value.float()
        double: Float64 = value.cpu().numpy().astype(np.float64, copy=False)
        return double
    return np.asarray(value, dtype=np.float64)


def pad_channels(value: Tensor, channels: int) -> Tensor:
    """[H, n, d] with zeros behind the last channel, up to `channels`."""
    missing = channels - value.shape[-1]
    if missing <= 0:
        return value
    if is_torch(value):
        return torch_module().nn.functional.pad(value, (0, missing))
    return np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, missing)])


def extremes(part: Tensor) -> Tensor:
    """The least and the largest number of a tensor, [2] beside it; NaN where one of its numbers is NaN."""
    if is_torch(part):
        torch = torch_module()
        # torch copies what does not lie in memory in the order of its axes, and any order of them has the same extremes.
        part = part.permute(sorted(range(part.ndim), key=lambda axis: -part.stride(axis)))
        return torch.stack(torch.aminmax(part))
    return np.array([part.min(), part.max()], np.float64)


def size_of(part: Tensor) -> Tensor:
    """The largest size of a tensor's numbers, beside it; NaN where one of its numbers is NaN."""
    if is_torch(part) and part.device.type == "cuda" and part.is_floating_point():  # in one pass over any strides
        torch = torch_module()
        return torch.linalg.vector_norm(part, math.inf, dtype=torch.promote_types(part.dtype, torch.float32))
    return abs(extremes(part)).max()


def beside(part: Tensor, other: Tensor) -> Tensor:
    """A numpy array as a torch tensor on the device of another, where that is one; else the array itself."""
    if is_torch(part) or not is_torch(other):
        return part
    if part.dtype.name == "bfloat16":  # torch takes no such array
        part = part.astype(np.float32)
    return torch_module().tensor(part, device=other.device)


def group(part: Tensor, heads: int) -> Tensor:
    """Each of [h, ...] for its H / h heads, [H, ...]."""
    times = heads // int(part.shape[0])
    if times == 1:
        return part
    return part.repeat_interleave(times, 0) if is_torch(part) else np.repeat(part, times, axis=0)


def take_heads(value: Tensor, heads: list[int]) -> Tensor:
    """Some heads of [H, ...], in that order."""
    return value[heads]


def to_bfloat16_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isnan(values), np.uint16(0x7FC0), (rounded >> np.uint32(16)).astype(np.uint16))


def _piece(part: Tensor, dtype: str) -> npt.NDArray[Any]:
    """A head in the file's format: float32, float64, or the bits of bfloat16."""
    if is_torch(part):
        torch = torch_module()
        if dtype == "bfloat16":
            bits: npt.NDArray[np.int16] = part.to(torch.bfloat16).contiguous().cpu().view(torch.int16).numpy()
            return bits.view(np.uint16)
        wide = torch.float64 if dtype == "float64" else torch.float32
        numbers: npt.NDArray[Any] = part.to(device="cpu", dtype=wide).contiguous().numpy()
        return numbers
    if dtype == "bfloat16":
        return to_bfloat16_bits(np.ascontiguousarray(part, dtype=np.float32))
    return np.ascontiguousarray(part, dtype=np.dtype(dtype))


def _is_finite(piece: npt.NDArray[Any]) -> bool:
    if piece.dtype == np.uint16:
        return not bool(np.any((piece & np.uint16(0x7F80)) == np.uint16(0x7F80)))
    # A sum is finite where all numbers are, but for an overflow: then they are looked at one by one.
    with np.errstate(all="ignore"):
        return bool(np.isfinite(piece.sum(dtype=np.float64))) or bool(np.isfinite(piece).all())


def pieces(value: Tensor, dtype: str, name: str) -> Iterator[npt.NDArray[Any]]:
    """The heads of [H, n, ...] one by one, in the file's format; at most one of them is in host memory beside `value`.

    Raises FoxscopeError naming the first number that is not finite.
    """
    for head in range(value.shape[0]):
        piece = _piece(value[head], dtype)
        if not _is_finite(piece):
            raise_not_finite(value[head], head, name)
        yield piece


def raise_not_finite(numbers: Tensor, head: int, name: str) -> None:
    """Raises FoxscopeError naming the first number of a head, [n, ...] or one, that is not finite, if there is one."""
    wrong = np.argwhere(~np.isfinite(to_float64(numbers)))
    if len(wrong) == 0:
        return
    place = [int(index) for index in wrong[0]]
    what = "is NaN" if np.isnan(to_float64(numbers)[tuple(place)]) else "is infinite"
    at = "".join(f", {axis} {index}" for axis, index in zip(("position", "channel"), place))
    raise FoxscopeError(f"{name} {what} at head {head}{at}: look for the layer before it")
