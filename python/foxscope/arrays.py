"""Arrays of a run (docs/files.md): in memory of their own, or where the file lies here, mapped into memory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foxscope.errors import FoxscopeError

if TYPE_CHECKING:
    from foxscope.runs import Model

__all__ = ["Mixer", "read_array", "read_row"]

_PIECE = 32 << 20
"""Bytes of one answer that carries a part of a long array."""


@dataclass(frozen=True)
class Mixer:
    """What a layer is: its kind, and the sizes of its arrays."""

    mixer: str
    decay: str
    heads: int
    query_heads: int
    key_heads: int
    value_heads: int
    head_dim: int
    value_dim: int


_PER_HEAD = ("heads", "length")
_PER_KEY = ("key_heads", "length", "head_dim")
_AXES: dict[str, tuple[str, ...]] = {
    "loss/per_token_loss": ("length",),
    "layers/NN/cumulative_log_gate": _PER_HEAD,
    "layers/NN/log_normalizer": _PER_HEAD,
    "layers/NN/log_normalizer_without_gate": _PER_HEAD,
    "layers/NN/query": ("query_heads", "length", "head_dim"),
    "layers/NN/key": _PER_KEY,
    "layers/NN/value": ("value_heads", "length", "value_dim"),
    "layers/NN/cumulative_log_decay": _PER_KEY,
    "layers/NN/decay_rate": ("heads", "head_dim"),
    "layers/NN/beta": _PER_HEAD,
    "layers/NN/erase_read": _PER_KEY,
    "layers/NN/erase_write": _PER_KEY,
    "layers/NN/sink_logit": ("heads",),
    "gradients/log_forget": ("layers", "heads", "length"),
    "logits": ("length", "vocabulary_size"),
    "hidden_states/NN": ("length", "hidden_size"),
    "experts/expert": ("layers", "length", "chosen_experts"),
    "experts/weight": ("layers", "length", "chosen_experts"),
    "predictions/hidden_state": ("length", "hidden_size"),
}
"""Extents of every array, by its name below a model's group. NN is the layer."""

_KEPT_BY = {"query": "qk", "key": "qk", "value": "values"}
"""Words of `foxscope run --keep` for what a head reads; the rest are gates."""

_IN_ONE_PIECE = ("layers/NN/query", "layers/NN/key", "layers/NN/value")
"""Arrays that the agent gives by rows, in the run's dtype."""


def _dtype(name: str) -> np.dtype[Any]:
    if name.endswith(("cumulative_log_gate", "cumulative_log_decay", "decay_rate")):
        return np.dtype(np.float64)
    if name == "experts/expert":
        return np.dtype(np.int32)
    return np.dtype(np.float16 if name == "predictions/hidden_state" else np.float32)


def _split(name: str) -> tuple[str, int]:
    """The name with NN in the place of the layer, and the layer."""
    parts = name.split("/")
    for place, part in enumerate(parts):
        if part.isdigit():
            return "/".join([*parts[:place], "NN", *parts[place + 1 :]]), int(part)
    return name, 0


def _shape(model: "Model", name: str, index: int) -> tuple[int, ...]:
    mixer = model.mixer(min(index, model.layers - 1))
    sizes = {**model.sizes, **vars(mixer)} if name.startswith("layers/") else model.sizes
    return tuple(sizes[axis] for axis in _AXES[name])


def _as_floats(bits: NDArray[Any]) -> NDArray[np.float32]:
    """bfloat16, of which numpy knows the bits alone, as float32."""
    wide: NDArray[np.uint32] = np.left_shift(bits, 16, dtype=np.uint32)
    return wide.view(np.float32)


def _mapped(model: "Model", path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """The array in the file itself, read-only; None where it does not lie there in one piece."""
    run = model.run
    if run.host is not None:
        return None
    import h5py

    run.check_unchanged()
    try:
        with h5py.File(run.path_there, "r") as file:
            dataset = file[f"models/{model.name}/{path}"]
            offset = dataset.id.get_offset()
            if offset is None or dataset.shape != shape or dataset.id.get_storage_size() != dtype.itemsize * np.prod(shape):
                return None
            mapped = np.memmap(run.path_there, dtype, "r", offset, shape)
    except (OSError, KeyError, ValueError) as error:
        run.check_unchanged()  # it may have gone just now
        raise FoxscopeError(f"{run.path}: {path} of model '{model.name}' cannot be read ({error})") from None
    run.check_unchanged()
    return mapped


def _received(model: "Model", name: str, index: int, begin: int, out: NDArray[Any]) -> None:
    """Numbers of an array from `begin` on, received into `out`."""
    bits = out.view(np.uint16) if out.dtype == np.float16 else out
    piece = _PIECE // bits.itemsize
    for first in range(0, bits.size, piece):
        part = bits[first : first + piece]
        fields = {"of": model.reference(), "array": name, "index": index, "begin": begin + first, "count": part.size}
        answer = model.run.ask("array", fields, into=part)
        answer.fill(answer.value, part)


def _received_rows(model: "Model", name: str, layer: int, row: int, out: NDArray[Any]) -> None:
    """Queries, keys or values of one of their heads, [L, channels], received into `out`."""
    step = max(1, _PIECE // (out.shape[1] * out.itemsize))
    for first in range(0, len(out), step):
        part = out[first : first + step]
        rows = {"begin": first, "end": first + len(part)}
        fields = {"of": {**model.reference(), "layer": layer, "head": row}, "array": name, "rows": rows}
        answer = model.run.ask("rows", fields, into=part)
        answer.fill(answer.value, part)


def read_array(model: "Model", path: str) -> NDArray[Any]:
    """An array by its name below the model's group, as layers/03/query.

    Of a file that lies here an array in one piece is mapped into memory, read-only: nothing is read before it is used.
    bfloat16 becomes float32. Raises FoxscopeError for one that the run did not keep.
    """
    name, index = _split(path)
    if name not in _AXES or not model.has(name, index):
        kept = ", ".join(model.arrays[:8])
        raise FoxscopeError(f"{model.run.path}: model '{model.name}' has no array {path!r}: it has {kept} and so on")
    shape = _shape(model, name, index)
    narrow = name in _IN_ONE_PIECE and model.dtype == "bfloat16"
    mapped = _mapped(model, path, shape, np.dtype(np.uint16) if narrow else _dtype(name))
    if mapped is not None:
        return _as_floats(mapped) if narrow else mapped
    if name in _IN_ONE_PIECE:
        out = np.empty(shape, np.uint16 if narrow else np.float32)
        for row in range(shape[0]):
            _received_rows(model, name, index, row, out[row])
        return _as_floats(out) if narrow else out
    flat = np.empty(int(np.prod(shape)), _dtype(name))
    _received(model, name, index, 0, flat)
    return flat.reshape(shape)


def read_row(model: "Model", name: str, layer: int, head: int) -> NDArray[Any]:
    """What belongs to a head of an array of a layer: [L], or [L, channels] for queries and the like.

    Heads share keys: head h of H has row h // (H / rows).
    """
    full = f"layers/NN/{name}"
    if not model.has(full, layer):
        raise FoxscopeError(
            f"{model.run.path}: model '{model.name}': {name} of layer {layer} was not kept, or such a layer has none: "
            f"--keep {_KEPT_BY.get(name, 'gates')} keeps it"
        )
    shape = _shape(model, full, layer)
    row = head // (model.mixer(layer).heads // shape[0])
    narrow = full in _IN_ONE_PIECE and model.dtype == "bfloat16"
    mapped = _mapped(model, f"layers/{layer:02}/{name}", shape, np.dtype(np.uint16) if narrow else _dtype(full))
    if mapped is not None:
        return _as_floats(mapped[row]) if narrow else mapped[row]
    if full in _IN_ONE_PIECE:
        out = np.empty(shape[1:], np.uint16 if narrow else np.float32)
        _received_rows(model, full, layer, row, out)
        return _as_floats(out) if narrow else out
    size = int(np.prod(shape[1:]))
    flat = np.empty(size, _dtype(full))
    _received(model, full, layer, row * size, flat)
    return flat.reshape(shape[1:])
