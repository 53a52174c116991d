"""What a run file says of its model and of each layer (docs/files.md, Every HDF5 file, and Schema 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .layers import Layer, Numbers
from .run_writer import RunWriter

SCHEMA, MIXER_SCHEMA, ATTENTION_SCHEMA = 1, 2, 3

#: Mixers with a decay that readers of schema 2 do not know.
_NEWER = {
    ("gated_linear_attention", "none"),
    ("gated_linear_attention", "head"),
    ("mamba", "head"),
    ("diagonal_plus_low_rank", "head"),
    ("delta_product", "none"),
    ("delta_product", "head"),
}
_NO_SIZES = dict.fromkeys(("heads", "query_heads", "key_heads", "value_heads", "head_dim", "value_dim"), 0)


def write_model(writer: RunWriter, layers: Mapping[int, Layer], count: int, numbers: Numbers, heads: list[int] | None) -> int:
    """Writes the attributes of a model of `count` layers, of which some were recorded, with some heads or all.

    Returns the oldest schema whose readers take the run for what it is.
    """
    first = layers[min(layers)]
    alike = all(layer.softmax and layer.call.sinks is None and layer.sizes == first.sizes for layer in layers.values())
    schema = SCHEMA if alike and len(layers) == count else _write_mixers(writer, layers, count, numbers)
    windows = {layer.call.window for layer in layers.values() if layer.softmax}
    for number, layer in layers.items():
        of_layer: dict[str, Any] = {}
        if len(windows) > 1 and layer.softmax:
            of_layer["window_size"] = layer.call.window
        if heads is not None:
            of_layer["recorded_heads"] = np.array(heads, np.int64)
        if of_layer:
            writer.attributes(f"layers/{number:02}", of_layer)
    attributes: dict[str, Any] = {
        "NX_class": "NXentry",
        "order": 0,
        "dtype": numbers.dtype or "float32",
        "device": first.device,
        "attention_kernel": "recorded: " + ", ".join(dict.fromkeys(layer.call.source for layer in layers.values())),
        "window_size": windows.pop() if len(windows) == 1 else 0,
        "gated": any(layer.forgets for layer in layers.values()),
        "layers": count,
    }
    for name in ("heads", "key_heads", "head_dim"):
        attributes[name] = max(layer.sizes[name] for layer in layers.values())
    if numbers.scale is not None:
        attributes["softmax_scale"] = np.float64(numbers.scale)
    if numbers.cap:
        attributes["logit_cap"] = np.float64(numbers.cap)
    writer.attributes("", attributes)
    return ATTENTION_SCHEMA if numbers.cap or len(windows) > 1 else schema


def _write_mixers(writer: RunWriter, layers: Mapping[int, Layer], count: int, numbers: Numbers) -> int:
    schema = MIXER_SCHEMA
    names = []
    for number in range(count):
        layer = layers.get(number)
        of_layer: dict[str, Any] = {"mixer": "none", "decay": "none", **_NO_SIZES, "source": "not recorded"}
        if layer is not None:
            undecayed = layer.softmax and not layer.forgets
            of_layer = {"mixer": layer.call.mixer, "decay": "none" if undecayed else layer.decay, **layer.sizes}
            if layer.call.sinks is not None:
                of_layer["sinks"] = 1
        names.append(of_layer["mixer"])
        writer.attributes(f"layers/{number:02}", of_layer)
        newer = (of_layer["mixer"], of_layer["decay"]) in _NEWER
        if layer is None or layer.call.sinks is not None or newer:
            schema = ATTENTION_SCHEMA
    writer.attributes("", {"mixers": names})
    return schema
