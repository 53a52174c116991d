"""Makes the fixture of a plain family of `transformers`: random weights and what the library returns for them.

The folder holds a config.json as the hub has it, with small sizes, written by hand: vocab_size, hidden_size and
intermediate_size of some dozens, two layers, fewer heads of keys than of queries, a head_dim that is a multiple of 16,
and every size another. Beside it come model.safetensors (bfloat16, in the hub's names) and golden.safetensors (float32,
eager attention).

    pip install torch transformers==5.24.0 safetensors     # in an environment of its own
    OMP_NUM_THREADS=1 python tests/data/make_plain.py tests/data/published/NAME
"""
import pathlib
import shutil
import sys
import tempfile

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

LENGTH = 48
ROWS = 4  # of attention, the last ones
SEED = 7


def draw(model):
    """Puts weights where each part of a layer matters: norms lie off 1 (or off 0 if they hold what is beyond 1), biases
    off 0, and logits of attention spread by about 2, so that heads choose."""
    torch.manual_seed(SEED)
    embedding = model.get_input_embeddings().weight
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn_like(parameter)
            if parameter.ndim == 1:
                parameter.add_(0.3 * noise)
            elif parameter is embedding:
                parameter.copy_(noise)
            else:
                parameter.copy_(1.5 * noise / parameter.shape[-1] ** 0.5)


def text(vocabulary):
    """Random tokens, of which the third quarter repeats the first, so that heads have something to find."""
    ids = torch.randint(0, vocabulary, (1, LENGTH + 1))
    ids[:, LENGTH // 2:3 * LENGTH // 4] = ids[:, :LENGTH // 4]
    return ids


def make(folder):
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config)
    draw(model)
    with tempfile.TemporaryDirectory() as saved:
        model.to(torch.bfloat16).save_pretrained(saved)
        shutil.copyfile(pathlib.Path(saved) / "model.safetensors", folder / "model.safetensors")
    # The files that were written are run.
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = text(config.vocab_size)
    golden = {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}
    with torch.no_grad():
        outputs = model(golden["input_ids"], output_attentions=True)
    golden["logits"] = outputs.logits
    golden["per_token_loss"] = torch.nn.functional.cross_entropy(outputs.logits.mT, golden["labels"], reduction="none")
    for layer, attention in enumerate(outputs.attentions):
        golden[f"layers.{layer}.attention"] = attention[:, :, -ROWS:]
    save_file({name: value.clone() for name, value in golden.items()}, folder / "golden.safetensors")
    largest = torch.stack([attention.amax(-1).mean() for attention in outputs.attentions])
    print(f"{folder}: largest logit {outputs.logits.abs().max():.3g}, a row's largest entry in the mean {largest.mean():.2g}")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
