"""python_recording.py [--device cuda] [--length 16384] [--layers 16] [--width 2048] [--folder /tmp]: what recording costs.

A llama (grouped queries, rotary embedding, attention of torch) and a FoX of the same sizes, whose gates are given by hand,
read a long text with and without foxscope.record(keep="gates,loss"), in turns. Then small ones of both are recorded whole,
FoX with its gates in a mask, and the attention of the file is held against attention written out in float64.
"""

import argparse
import math
import statistics
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from foxscope.recording import record  # noqa: E402

VOCABULARY = 32000


def rotate(x):
    """Rotary embedding of [B, H, L, d]."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(x.shape[2], device=x.device)[:, None] * rates
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self, layer, width, heads, key_heads, gated):
        super().__init__()
        self.layer_idx, self.heads, self.key_heads, self.d = layer, heads, key_heads, width // heads
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * key_heads * self.d, bias=False)
        self.gate = nn.Linear(width, heads) if gated else None

    def forward(self, x, rec, in_mask):
        batch, length, width = x.shape
        q = self.q(x).view(batch, length, self.heads, self.d).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, 2, self.key_heads, self.d).permute(2, 0, 3, 1, 4)
        if self.gate is None:
            y = functional.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        else:
            log_f = functional.logsigmoid(self.gate(x).float() + 4).transpose(1, 2)
            if in_mask:
                c = log_f.cumsum(-1)
                future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
                bias = (c[..., :, None] - c[..., None, :]).masked_fill(future, -torch.inf)
                y = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), enable_gqa=True)
            else:  # the time of FoX without the gates' share of its kernel
                y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                if rec is not None:
                    rec.attention(self.layer_idx, q, k, v, log_forget=log_f)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, layer, width, heads, key_heads, gated):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.attention = Attention(layer, width, heads, key_heads, gated)
        self.up, self.down = nn.Linear(width, 6 * width, bias=False), nn.Linear(3 * width, width, bias=False)

    def forward(self, x, rec, in_mask):
        x = x + self.attention(self.norms[0](x), rec, in_mask)
        gate, up = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, layers, width, heads, key_heads, gated):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(n, width, heads, key_heads, gated) for n in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids, rec=None, in_mask=False):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, rec, in_mask)
        return self.head(self.norm(x))


def model_of(options, layers, width, gated, dtype):
    torch.manual_seed(0)
    heads = max(4, width // 128)
    with torch.device(options.device):
        return Model(layers, width, heads, heads // 2, gated).to(dtype).eval()


def synchronize(device):
    if device != "cpu":
        torch.cuda.synchronize()


def cost(options, gated, dtype):
    """Seconds of passes without and with a recording, in turns, on a CPU of processor time; medians of all but the first."""
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    model = model_of(options, options.layers, options.width, gated, dtype)
    ids = torch.randint(VOCABULARY, (1, options.length), device=options.device)
    path = Path(options.folder) / "cost.h5"

    def plain():
        return model(ids)

    def recorded():
        with record(path, input_ids=ids, keep="gates,loss", automatic=not gated, check=not gated) as rec:
            rec.logits(model(ids, rec))

    taken = {plain: [], recorded: []}
    for _ in range(options.times + 1):
        for action, seconds in taken.items():
            path.unlink(missing_ok=True)
            synchronize(options.device)
            begun = clock()
            action()
            synchronize(options.device)
            seconds.append(clock() - begun)
    without, with_it = (statistics.median(seconds[1:]) for seconds in taken.values())
    size = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{'FoX' if gated else 'llama'} of {size / 1e9:.2f} billion, {options.layers} layers, {options.length} tokens, "
        f"{str(dtype).removeprefix('torch.')}, {options.device}: {without:.4f} s, recorded {with_it:.4f} s "
        f"({100 * (with_it / without - 1):+.1f} %), medians of {options.times}",
        flush=True,
    )


def maps(options, gated, dtype):
    """The largest difference between A of a recorded file and A of the model's q, k and log f in float64."""
    model = model_of(options, 2, 256, gated, dtype)
    ids = torch.randint(VOCABULARY, (1, 700), device=options.device)
    path = Path(options.folder) / "maps.h5"
    seen = []
    function = functional.scaled_dot_product_attention

    def attention(q, k, v, **more):
        seen.append((q[0], k[0], more.get("attn_mask")))
        return function(q, k, v, **more)

    with record(path, input_ids=ids, overwrite=True) as rec:
        rec.logits(model(ids, in_mask=True))
    functional.scaled_dot_product_attention = attention
    model(ids, in_mask=True)
    functional.scaled_dot_product_attention = function
    worst = 0.0
    with h5py.File(path) as file:
        scale = file["models/model"].attrs["softmax_scale"]
        for layer, (q, k, bias) in enumerate(seen):
            arrays = {name: item[()].astype(np.float64) for name, item in file[f"models/model/layers/{layer:02}"].items()}
            c = arrays["cumulative_log_gate"]
            future = np.triu(np.full((q.shape[1], q.shape[1]), -np.inf), 1)
            gates = c[:, :, None] - c[:, None, :]
            ours = weights(arrays["query"], arrays["key"], scale, gates + future)
            bias = future if bias is None else bias[0].double().cpu().numpy()
            theirs = weights(*(part.double().cpu().numpy() for part in (q, k)), 1 / math.sqrt(q.shape[-1]), bias)
            worst = max(worst, float(np.abs(ours - theirs).max()))
    name = "FoX by a mask" if gated else "llama"
    print(f"{name}, {str(dtype).removeprefix('torch.')}, {options.device}: A of the file differs by {worst:.1e}", flush=True)
    print("  " + rec.summary().splitlines()[-1], flush=True)


def weights(q, k, scale, bias):
    """A, [H, L, L], in float64."""
    logits = scale * q @ np.repeat(k, len(q) // len(k), axis=0).swapaxes(1, 2) + bias
    entries = np.exp(logits - logits.max(axis=2, keepdims=True))
    return entries / entries.sum(axis=2, keepdims=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--length", type=int, default=16384)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder", default="/tmp")
    options = parser.parse_args()
    with torch.no_grad():
        for gated in (False, True):
            for dtype in (torch.float32, torch.bfloat16):
                maps(options, gated, dtype)
        for gated in (False, True):
            cost(options, gated, torch.bfloat16 if options.device != "cpu" else torch.float32)


main()
