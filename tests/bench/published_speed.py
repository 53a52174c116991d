"""published_speed.py FOXSCOPE [NAME ...]: losses of models as they are published, against eager transformers on a CPU.

For each family a model of random weights (512 wide, 6 layers, about what a small model's layer has) is saved by transformers,
and both compute its losses of the same tokens in float32. Prints seconds of the two, their quotient, the seconds that the
matrix products of the weights alone take in LibTorch at the rate that a product of 4096 x 512 x 1536 reaches here, the
largest difference of a loss, and how many differ by more than 1e-4: where two experts are nearly as likely, rounding
chooses. Needs the packages transformers (5.24) and torch; the models are written into a folder of /tmp.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import h5py
import numpy
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

WIDTH, LAYERS, VOCABULARY = 512, 6, 8192
SOFTMAX = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "intermediate_size": 1536,
           "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": 65536}
EXPERTS = {"moe_intermediate_size": 384, "num_experts": 16, "num_experts_per_tok": 4}
MAMBA = {"mamba_n_heads": 16, "mamba_d_head": 64, "mamba_d_state": 64, "mamba_n_groups": 1, "mamba_expand": 2,
         "mamba_d_conv": 4}
DELTA = {"linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
         "linear_conv_kernel_dim": 4}
MIXED = {"layer_types": ["linear_attention"] * 3 + ["full_attention"] + ["linear_attention"] * 2}
WINDOWS = {"sliding_window": 1024, "layer_types": (["sliding_attention"] * 2 + ["full_attention"]) * 2}

# Family: its keys in the configuration.
FAMILIES = {
    "llama": SOFTMAX,
    "qwen2": {**SOFTMAX},
    "qwen3": {**SOFTMAX},
    "ministral": {**SOFTMAX, **WINDOWS},
    "mistral": {**SOFTMAX, "sliding_window": 1024},
    "gemma2": {**SOFTMAX, "sliding_window": 1024, "query_pre_attn_scalar": 64},
    "gemma3_text": {**SOFTMAX, "sliding_window": 1024, "query_pre_attn_scalar": 64},
    "olmo2": {**SOFTMAX},
    "olmo3": {**SOFTMAX, **WINDOWS},
    "phi3": {**SOFTMAX, "pad_token_id": 0},
    "smollm3": {**SOFTMAX, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0},
    "gpt_oss": {**SOFTMAX, **WINDOWS, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 512},
    "qwen3_moe": {**SOFTMAX, **EXPERTS},
    "olmoe": {**SOFTMAX, "num_experts": 16, "num_experts_per_tok": 4, "intermediate_size": 384},
    "mixtral": {**SOFTMAX, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 768},
    "qwen3_5_text": {**SOFTMAX, **DELTA, **MIXED},
    "qwen3_next": {**SOFTMAX, **DELTA, **MIXED, **EXPERTS, "shared_expert_intermediate_size": 384},
    "bamba": {**SOFTMAX, **MAMBA, "attn_layer_indices": [3]},
    "granitemoehybrid": {**SOFTMAX, **MAMBA, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 384,
                         "shared_intermediate_size": 384, "layer_types": ["mamba"] * 3 + ["attention"] + ["mamba"] * 2},
    "nemotron_h": {**SOFTMAX, "layers_block_type": ["mamba", "moe", "attention", "mamba", "moe", "mamba"], "mamba_num_heads": 16,
                   "mamba_head_dim": 64, "ssm_state_size": 64, "n_groups": 1, "n_routed_experts": 8,
                   "num_experts_per_tok": 2, "moe_intermediate_size": 384, "moe_shared_expert_intermediate_size": 384},
    "falcon_h1": {**SOFTMAX, **MAMBA, "mamba_d_ssm": 1024},
    "zamba2": {**SOFTMAX, "attention_head_dim": 128, "attention_hidden_size": 1024, "mamba_d_state": 64, "n_mamba_heads": 16, "mamba_headdim": 64, "mamba_ngroups": 1,
               "hybrid_layer_ids": [2, 4], "num_mem_blocks": 1,
               "layers_block_type": ["mamba", "mamba", "hybrid", "mamba", "hybrid", "mamba"]},
    "olmo_hybrid": {**SOFTMAX, **DELTA, **MIXED, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0},
    "mamba2": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "num_heads": 16, "head_dim": 64,
               "state_size": 64, "n_groups": 1, "expand": 2},
    "mamba": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "intermediate_size": 1024},
    "falcon_mamba": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "intermediate_size": 1024},
    "recurrent_gemma": {**SOFTMAX, "lru_width": WIDTH, "attention_window_size": 1024, "num_key_value_heads": 1},
    "minimax": {**SOFTMAX, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 768,
                "layer_types": ["linear_attention", "full_attention"] * 3},
}


def saved_model(name, folder):
    """A model of that family with random weights, in float32, saved."""
    torch.manual_seed(1)
    keys = {key: value for key, value in FAMILIES[name].items()}
    config = transformers.AutoConfig.for_model(name, **keys)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    model.save_pretrained(folder)
    return model


def product_rate():
    """Multiplications and additions a second of a product of the weights' kind."""
    left, right = torch.randn(4096, WIDTH), torch.randn(1536, WIDTH)
    best = float("inf")
    for _ in range(10):
        started = time.monotonic()
        torch.nn.functional.linear(left, right)
        best = min(best, time.monotonic() - started)
    return 2 * left.numel() * 1536 / best


def eager_losses(model, ids, turns):
    """Losses and the least seconds of a pass that keeps no cache, and the operations of its products with weights."""
    tokens = torch.tensor(ids)[None].long()
    best = float("inf")
    with torch.no_grad():
        for _ in range(turns):
            started = time.monotonic()
            logits = model(tokens[:, :-1], use_cache=False).logits[0]
            losses = torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="none")
            best = min(best, time.monotonic() - started)
        with FlopCounterMode(display=False) as counter:
            model(tokens[:, :256], use_cache=False)
    counts = counter.get_flop_counts()["Global"]
    products = sum(count for operation, count in counts.items() if "bmm" not in str(operation))
    return losses.numpy(), best, products * len(ids) / 256


def own_losses(program, folder, ids, turns):
    """Losses and the least seconds of the pass, as --json tells them."""
    path = pathlib.Path(folder) / "ids.json"
    path.write_text(json.dumps({"input_ids": ids[:-1], "labels": ids[1:]}))
    best = float("inf")
    for _ in range(turns):
        run = pathlib.Path(folder) / "run.h5"
        command = [program, "run", "--model", f"m={folder}", "--ids", str(path), "--keep", "loss", "--device", "cpu", "-o",
                   str(run), "--force", "--json"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.returncode:
            raise RuntimeError(told.stderr.strip().splitlines()[-1])
        best = min(best, json.loads(told.stdout)["models"][0]["seconds"]["forward"])
    with h5py.File(run) as file:
        losses = file["models/m/loss/per_token_loss"][:]
    return losses, best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="FOXSCOPE")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*FAMILIES, []])
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    rate = product_rate()
    print(f"{torch.get_num_threads()} threads, products at {rate / 1e9:.0f} GFLOP/s, {options.length} tokens")
    print(f"{'family':18}{'eager s':>9}{'ours s':>9}{'x':>7}{'products s':>12}{'loss differs by':>17}  by 1e-4")
    for name in options.names or FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                model = saved_model(name, folder)
                ids = torch.randint(0, VOCABULARY, [options.length]).tolist()
                ours, own = own_losses(options.program, folder, ids, options.turns)
                expected, eager, operations = eager_losses(model, ids, options.turns)
            except Exception as error:  # the other families are measured nonetheless
                print(f"{name:18} {type(error).__name__}: {error}", flush=True)
                continue
            differences = numpy.abs(ours - expected)
            difference, far = differences.max(), (differences > 1e-4).sum()
            print(f"{name:18}{eager:9.2f}{own:9.2f}{eager / own:7.1f}{operations / rate:12.2f}{difference:17.1e}{far:9}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
