"""fla_training.py [NAME ...]: whole steps of training of FLA's linear mixers in PyTorch, beside `foxscope bench training`.

Models of the shapes of tests/bench/linear_models.h, with FLA's layers, norms, SwiGLU and cross entropy, parameters in float32,
autocast to bfloat16, fused AdamW, one sequence of 16,384 random tokens a step, nothing computed again. Prints the median of 5
steps, tokens a second and peak memory. FLA must be importable (PYTHONPATH); versions of Triton in which FLA refuses a
gated backward pass give a line that says so. --tune finds Triton's configurations with two layers and stops, which takes minutes, so
that several names can be tuned at once in processes of their own (TRITON_CACHE_AUTOTUNING=1 keeps them).
"""

import argparse
import statistics
import time

import fla
import torch
from fla.layers.delta_net import DeltaNet
from fla.layers.gated_deltanet import GatedDeltaNet
from fla.layers.gla import GatedLinearAttention
from fla.layers.hgrn2 import HGRN2Attention
from fla.modules import FusedCrossEntropyLoss, GatedMLP, RMSNorm
from fla.modules.convolution import ShortConvolution
from fla.modules.fused_norm_gate import FusedRMSNormGated
from fla.ops.simple_gla import chunk_simple_gla

WIDTH, VOCABULARY, LENGTH, STEPS = 1536, 50257, 16384, 5


class Mamba2(torch.nn.Module):
    """FLA has no Mamba-2 of its own kernels for a whole layer; its recurrence is simple GLA with the step in the keys."""

    def __init__(self, heads=48, dim=64, state=128):
        super().__init__()
        self.heads, self.dim, self.state, inner = heads, dim, state, heads * dim
        self.project = torch.nn.Linear(WIDTH, 2 * inner + 2 * state + heads, bias=False)
        self.convolution = ShortConvolution(inner + 2 * state, 4, activation="silu")
        self.rate = torch.nn.Parameter(torch.log(torch.arange(1, heads + 1, dtype=torch.float32)))
        self.bias = torch.nn.Parameter(torch.full((heads,), -4.0))
        self.skip = torch.nn.Parameter(torch.ones(heads))
        self.norm = FusedRMSNormGated(inner, activation="swish")
        self.output = torch.nn.Linear(inner, WIDTH, bias=False)

    def forward(self, x):
        inner = self.heads * self.dim
        gate, mixed, step = self.project(x).split([inner, inner + 2 * self.state, self.heads], dim=-1)
        value, key, query = self.convolution(mixed)[0].split([inner, self.state, self.state], dim=-1)
        step = torch.nn.functional.softplus(step.float() + self.bias)
        value = value.unflatten(-1, (self.heads, self.dim))
        of_heads = [part.unsqueeze(2).expand(-1, -1, self.heads, -1).contiguous() for part in (query, key)]
        made, _ = chunk_simple_gla(*of_heads, (value * step.unsqueeze(-1)).to(value.dtype), -step * self.rate.exp(), scale=1)
        return self.output(self.norm((made + value * self.skip.unsqueeze(-1).to(value.dtype)).flatten(2), gate))


# How many layers, one of them, whether an MLP follows.
SHAPES = {
    "Mamba-2": (48, lambda layer: Mamba2(), False),
    "HGRN2": (24, lambda layer: HGRN2Attention(hidden_size=WIDTH, expand_ratio=128, layer_idx=layer), True),
    "GLA": (24, lambda layer: GatedLinearAttention(hidden_size=WIDTH, num_heads=4, layer_idx=layer), True),
    "DeltaNet": (24, lambda layer: DeltaNet(hidden_size=WIDTH, num_heads=12, layer_idx=layer), True),
    "Gated-DeltaNet": (21, lambda layer: GatedDeltaNet(hidden_size=WIDTH, num_heads=6, head_dim=192, expand_v=2,
                                                       layer_idx=layer), True),
}


class Block(torch.nn.Module):
    def __init__(self, mixer, has_mlp):
        super().__init__()
        self.mixer = mixer
        self.mixer_norm = RMSNorm(WIDTH, dtype=torch.float32)
        self.mlp = GatedMLP(WIDTH, hidden_ratio=4) if has_mlp else None
        self.mlp_norm = RMSNorm(WIDTH, dtype=torch.float32) if has_mlp else None

    def forward(self, x):
        made = self.mixer(self.mixer_norm(x))
        x = x + (made[0] if isinstance(made, tuple) else made)
        return x if self.mlp is None else x + self.mlp(self.mlp_norm(x))


class Model(torch.nn.Module):
    def __init__(self, name, most_layers):
        super().__init__()
        layers, make, has_mlp = SHAPES[name]
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList(Block(make(layer), has_mlp) for layer in range(min(layers, most_layers)))
        self.norm = RMSNorm(WIDTH, dtype=torch.float32)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.loss = FusedCrossEntropyLoss(inplace_backward=True)

    def forward(self, ids, labels):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.loss(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def measure(name, tune):
    torch.manual_seed(0)
    torch.cuda.reset_peak_memory_stats()
    with torch.device("cuda"):
        model = Model(name, 2 if tune else 1000)
        ids, labels = torch.randint(VOCABULARY, (2, 1, LENGTH))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    seconds = []
    for _ in range(1 if tune else 2 + STEPS):
        torch.cuda.synchronize()
        started = time.monotonic()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.monotonic() - started)
    if tune:
        return f"tuned in {seconds[0]:.0f} s"
    median = statistics.median(seconds[2:])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return (f"{parameters / 1e6:.0f}M parameters, {LENGTH} tokens: {1e3 * median:.1f} ms, {LENGTH / median / 1e3:.1f}k tokens/s, "
            f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, loss {loss.item():.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *SHAPES], default=[], metavar="NAME")
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    print(f"FLA {fla.__version__}, PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    for name in options.names or SHAPES:
        try:
            said = measure(name, options.tune)
        except Exception as error:  # FLA refuses what its compiler computes wrongly
            said = f"does not run: {str(error).splitlines()[0][:160]}"
        print(f"{name:<14}  {said}", flush=True)


if __name__ == "__main__":
    main()
