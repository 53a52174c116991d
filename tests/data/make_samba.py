"""Makes tests/data/samba, samba-options and mamba: small random checkpoints of Samba, the paper's hybrid baseline, and
of the first Mamba, with what a dense program in float64 computes of them.

The program follows the published definition of the layers, position by position and without any of Foxscope's code:
Gu and Dao 2023, algorithm 2 with the state's matrix A real and diagonal, for Mamba; Ren et al. 2024 for the hybrid.

    .venv/bin/python tests/data/make_samba.py
"""
import json
import math
import pathlib

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
LENGTH = 96
MAP_ROWS = 24
MAP_HEADS = [0, 7, 31]


def silu(x):
    return x / (1 + numpy.exp(-x))


def softplus(x):
    return numpy.logaddexp(0, x)


def rms(x, weight, eps):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


class Draw:
    """Random weights, rounded to bfloat16 as they are in the file."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.tensors = {}

    def put(self, name, values):
        bits = numpy.asarray(values, "<f4").view("<u4")
        self.tensors[name] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")

    def normal(self, name, *shape, scale=None, mean=0.0):
        scale = scale if scale is not None else 1.3 / math.sqrt(shape[-1])
        self.put(name, mean + scale * self.random.standard_normal(shape))

    def weights(self):
        return {name: (bits.astype("<u4") << 16).view("<f4").astype("<f8") for name, bits in self.tensors.items()}


def draw_mamba(draw, prefix, config):
    hidden, state = config["hidden_size"], config["state_size"]
    inner = int(config["expand"] * hidden)
    rank = config["time_step_rank"]
    rank = math.ceil(hidden / 16) if rank == "auto" else rank
    draw.normal(prefix + "in_proj.weight", 2 * inner, hidden)
    draw.normal(prefix + "conv1d.weight", inner, 1, config["conv_kernel"], scale=0.5)
    draw.normal(prefix + "x_proj.weight", rank + 2 * state, inner, scale=1.5 / math.sqrt(inner))
    draw.normal(prefix + "dt_proj.weight", inner, rank, scale=0.7 / math.sqrt(rank))
    draw.normal(prefix + "dt_proj.bias", inner, scale=1.5, mean=-2.5)
    draw.put(prefix + "A_log", numpy.log(numpy.arange(1, state + 1)) + 0.3 * draw.random.standard_normal((inner, state)))
    draw.normal(prefix + "D", inner, scale=0.4, mean=1)
    draw.normal(prefix + "out_proj.weight", hidden, inner, scale=1 / math.sqrt(inner))
    if config["use_bias"]:
        draw.normal(prefix + "in_proj.bias", 2 * inner, scale=0.3)
        draw.normal(prefix + "out_proj.bias", hidden, scale=0.3)
    if config["use_conv_bias"]:
        draw.normal(prefix + "conv1d.bias", inner, scale=0.3)


def mamba(w, prefix, x, config, maps, layer):
    """x [L, D]."""
    state = config["state_size"]
    projected = x @ w[prefix + "in_proj.weight"].T
    if config["use_bias"]:
        projected = projected + w[prefix + "in_proj.bias"]
    inner = projected.shape[1] // 2
    u, z = projected[:, :inner], projected[:, inner:]
    taps = w[prefix + "conv1d.weight"][:, 0, :]
    count = taps.shape[1]
    convolved = numpy.zeros_like(u)
    for t in range(len(u)):
        for tap in range(count):
            at = t - count + 1 + tap
            if at >= 0:
                convolved[t] += taps[:, tap] * u[at]
    if config["use_conv_bias"]:
        convolved = convolved + w[prefix + "conv1d.bias"]
    u = silu(convolved)
    selected = u @ w[prefix + "x_proj.weight"].T
    rank = selected.shape[1] - 2 * state
    low, b, c = selected[:, :rank], selected[:, rank:rank + state], selected[:, rank + state:]
    dt = softplus(low @ w[prefix + "dt_proj.weight"].T + w[prefix + "dt_proj.bias"])
    a = -numpy.exp(w[prefix + "A_log"])
    held = numpy.zeros((inner, state))
    y = numpy.zeros_like(u)
    for t in range(len(u)):
        held = numpy.exp(dt[t][:, None] * a) * held + dt[t][:, None] * b[t][None, :] * u[t][:, None]
        y[t] = held @ c[t]
    keep_maps(maps, layer, u, b, c, dt, a)
    y = (y + w[prefix + "D"] * u) * silu(z)
    out = y @ w[prefix + "out_proj.weight"].T
    return out + w[prefix + "out_proj.bias"] if config["use_bias"] else out


def keep_maps(maps, layer, u, b, c, dt, a):
    """What the operator takes; of some channels the last rows of M, y_i = sum over j of M_ij u_j, and of the mean of the
    decays of their states."""
    name = f"layers.{layer}."
    maps[name + "q"], maps[name + "k"] = c[None], b[None]
    maps[name + "v"] = u.T[:, :, None]
    maps[name + "beta"] = dt.T
    maps[name + "rate"] = -a
    mixing = numpy.zeros((len(MAP_HEADS), MAP_ROWS, LENGTH))
    forget = numpy.zeros_like(mixing)
    for place, head in enumerate(MAP_HEADS):
        for row in range(MAP_ROWS):
            i = LENGTH - MAP_ROWS + row
            for j in range(i + 1):
                decay = numpy.exp(a[head] * dt[j + 1:i + 1, head].sum())
                mixing[place, row, j] = (c[i] * decay * b[j]).sum() * dt[j, head]
                forget[place, row, j] = decay.mean()
    maps[name + "mixing_heads"] = numpy.array(MAP_HEADS)
    maps[name + "mixing"], maps[name + "forget"] = mixing, forget


def draw_attention(draw, prefix, config):
    hidden, attn = config["hidden_size"], config["attn"]
    keys = hidden // attn["num_heads"] * (attn["num_kv_heads"] or attn["num_heads"])
    draw.normal(prefix + "q_proj.weight", hidden, hidden, scale=2 / math.sqrt(hidden))
    draw.normal(prefix + "k_proj.weight", keys, hidden, scale=2 / math.sqrt(hidden))
    draw.normal(prefix + "v_proj.weight", keys, hidden)
    draw.normal(prefix + "o_proj.weight", hidden, hidden, scale=1 / math.sqrt(hidden))


def rotate(x, base):
    """x [L, H, d]; number n turns with number n + d / 2."""
    half = x.shape[-1] // 2
    angle = numpy.arange(len(x))[:, None] * base ** (-numpy.arange(half) / half)
    cos, sin = numpy.cos(angle)[:, None], numpy.sin(angle)[:, None]
    first, second = x[..., :half], x[..., half:]
    return numpy.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def attention(w, prefix, x, config):
    attn = config["attn"]
    heads = attn["num_heads"]
    key_heads = attn["num_kv_heads"] or heads
    length, hidden = x.shape
    dim = hidden // heads
    q = rotate((x @ w[prefix + "q_proj.weight"].T).reshape(length, heads, dim), config["rope_base"])
    k = rotate((x @ w[prefix + "k_proj.weight"].T).reshape(length, key_heads, dim), config["rope_base"])
    v = (x @ w[prefix + "v_proj.weight"].T).reshape(length, key_heads, dim)
    out = numpy.zeros((length, heads, dim))
    for head in range(heads):
        group = head // (heads // key_heads)
        for i in range(length):
            first = 0 if attn["window_size"] is None else max(0, i - attn["window_size"] + 1)
            logits = k[first:i + 1, group] @ q[i, head] / math.sqrt(dim)
            shares = numpy.exp(logits - logits.max())
            out[i, head] = shares @ v[first:i + 1, group] / shares.sum()
    return out.reshape(length, hidden) @ w[prefix + "o_proj.weight"].T


def mlp_width(hidden, ratio):
    return 256 * math.ceil(int(hidden * ratio * 2 / 3) / 256)


def is_attention(config, layer):
    return config.get("attn") is not None and layer % 2 == 1


def draw_model(config, seed):
    draw = Draw(seed)
    hidden = config["hidden_size"]
    samba = config["model_type"].startswith("samba")
    draw.normal("backbone.embeddings.weight", config["vocab_size"], hidden, scale=1)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"backbone.layers.{layer}."
        draw.normal(prefix + ("mixer_norm.weight" if samba else "norm.weight"), hidden, scale=0.2, mean=1)
        (draw_attention if is_attention(config, layer) else draw_mamba)(draw, prefix + "mixer.", config)
        if samba:
            ratio = config["attn_hidden_ratio" if is_attention(config, layer) else "mamba_hidden_ratio"]
            width = mlp_width(hidden, ratio)
            draw.normal(prefix + "mlp_norm.weight", hidden, scale=0.2, mean=1)
            draw.normal(prefix + "mlp.gate_proj.weight", 2 * width, hidden)
            draw.normal(prefix + "mlp.down_proj.weight", hidden, width, scale=0.6 / math.sqrt(width))
    draw.normal("backbone.norm_f.weight", hidden, scale=0.2, mean=1)
    if not config["tie_word_embeddings"]:
        draw.normal("lm_head.weight", config["vocab_size"], hidden, scale=2 / math.sqrt(hidden))
    return draw


def run(config, w, ids, golden, maps):
    samba = config["model_type"].startswith("samba")
    eps = config["norm_eps" if samba else "layer_norm_epsilon"]
    x = w["backbone.embeddings.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        golden[f"hidden_states.{layer}"] = x[None]
        prefix = f"backbone.layers.{layer}."
        normed = rms(x, w[prefix + ("mixer_norm.weight" if samba else "norm.weight")], eps)
        if is_attention(config, layer):
            x = x + attention(w, prefix + "mixer.", normed, config)
        else:
            x = x + mamba(w, prefix + "mixer.", normed, config, maps, layer)
        if samba:
            wide = rms(x, w[prefix + "mlp_norm.weight"], eps) @ w[prefix + "mlp.gate_proj.weight"].T
            half = wide.shape[1] // 2
            x = x + (silu(wide[:, :half]) * wide[:, half:]) @ w[prefix + "mlp.down_proj.weight"].T
    x = rms(x, w["backbone.norm_f.weight"], eps)
    golden[f"hidden_states.{config['num_hidden_layers']}"] = x[None]
    return x @ w["backbone.embeddings.weight" if config["tie_word_embeddings"] else "lm_head.weight"].T


def save(path, arrays):
    """As safetensors: the length of a header, the header in JSON, the numbers. Two bytes are a bfloat16."""
    header, data = {}, b""
    for name, values in sorted(arrays.items()):
        if values.dtype == "<u2":
            kind = "BF16"
        elif numpy.issubdtype(values.dtype, numpy.integer):
            kind, values = "I64", values.astype("<i8")
        else:
            kind, values = "F32", values.astype("<f4")
        numbers = numpy.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def make(folder, config, seed):
    path = FOLDER / folder
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    draw = draw_model(config, seed)
    save(path / "model.safetensors", draw.tensors)
    random = numpy.random.default_rng(seed + 1)
    text = random.integers(1, config["vocab_size"], LENGTH)
    text[LENGTH // 2:LENGTH * 3 // 4] = text[:LENGTH // 4]
    ids = numpy.concatenate([[0], text[:-1]])
    golden, maps = {"input_ids": ids[None], "labels": text[None]}, {}
    logits = run(config, draw.weights(), ids, golden, maps)
    largest = logits.max(-1, keepdims=True)
    normalizer = largest[:, 0] + numpy.log(numpy.exp(logits - largest).sum(-1))
    golden["logits"] = logits[None]
    golden["per_token_loss"] = (normalizer - logits[numpy.arange(LENGTH), text])[None]
    save(path / "golden.safetensors", golden)
    save(path / "golden_maps.safetensors", maps)


SAMBA = {
    "architectures": ["SambaForCausalLM"], "attn": {"layers": None, "num_heads": 4, "num_kv_heads": 2, "window_size": 20},
    "attn_hidden_ratio": 15, "bos_token_id": 0, "conv_kernel": 4, "eos_token_id": None, "expand": 2,
    "fuse_cross_entropy": True, "fuse_norm": True, "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.02,
    "mamba_hidden_ratio": 3, "max_position_embeddings": None, "model_type": "samba-project_fox", "norm_eps": 1e-5,
    "num_hidden_layers": 4, "pad_token_id": None, "rescale_prenorm_residual": True, "residual_in_fp32": False,
    "rope_base": 500000, "state_size": 5, "tie_word_embeddings": False, "time_step_floor": 1e-4,
    "time_step_init_scheme": "random", "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 2,
    "time_step_scale": 1.0, "use_bias": False, "use_cache": True, "use_conv_bias": True, "vocab_size": 131}

# Every option otherwise.
OPTIONS = SAMBA | {
    "attn": {"layers": None, "num_heads": 3, "num_kv_heads": None, "window_size": None}, "attn_hidden_ratio": 4,
    "conv_kernel": 3, "expand": 1.5, "hidden_act": "swish", "hidden_size": 24, "mamba_hidden_ratio": 17, "norm_eps": 0.01,
    "num_hidden_layers": 3, "rope_base": 100.0, "state_size": 16, "tie_word_embeddings": True, "time_step_rank": "auto",
    "use_bias": True, "use_conv_bias": False}

MAMBA = {
    "architectures": ["MambaForCausalLM"], "bos_token_id": 0, "conv_kernel": 4, "d_inner": 64, "d_model": 32,
    "eos_token_id": 0, "expand": 2, "fused_add_norm": True, "hidden_act": "silu", "hidden_size": 32,
    "initializer_range": 0.1, "intermediate_size": 64, "layer_norm_epsilon": 1e-5, "model_type": "mamba", "n_layer": 2,
    "num_hidden_layers": 2, "pad_token_id": 0, "pad_vocab_size_multiple": 8, "rescale_prenorm_residual": False,
    "residual_in_fp32": True, "rms_norm": True, "ssm_cfg": {}, "state_size": 16, "tie_word_embeddings": False,
    "time_step_floor": 1e-4, "time_step_init_scheme": "random", "time_step_max": 0.1, "time_step_min": 0.001,
    "time_step_rank": 2, "time_step_scale": 1.0, "use_bias": False, "use_cache": True, "use_conv_bias": True,
    "vocab_size": 136}

if __name__ == "__main__":
    make("samba", SAMBA, 11)
    make("samba-options", OPTIONS, 12)
    make("mamba", MAMBA, 13)
