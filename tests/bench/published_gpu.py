"""published_gpu.py FOXSCOPE [NAME ...]: models of 7B as they are published, from a disk to losses and maps on a GPU.

Makes a model of random weights by transformers (5.17 or later) on the GPU, in bfloat16, and saves it into a folder of --folder,
which takes 15 GB. Prints the seconds in which `cat` reads the weights from the disk and in which Foxscope loads them, both
with an empty page cache (as root; else the cache is as it is), the tokens a second of losses at 16,384 tokens in the second
pass of one process, and the seconds of `foxscope map` for attention and mixing of a run of 65,536 tokens, whose file takes 33 GB.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

import torch
import transformers

LAYERS = {"olmo_hybrid": 32, "qwen3_5_text": 24}  # of 7.4 and 7.2 billion parameters


def make(name, folder):
    config = transformers.AutoConfig.for_model(name)
    config.bos_token_id = 1
    config.max_position_embeddings = 1 << 18
    config.num_hidden_layers = LAYERS[name]
    config.layer_types = config.layer_types[:LAYERS[name]]
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    print(f"{name}: {sum(p.numel() for p in model.parameters()) / 1e9:.2f} billion parameters", flush=True)
    del model
    torch.cuda.empty_cache()


def forget_pages():
    os.sync()
    if os.geteuid() == 0:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def seconds_of(command, **options):
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    return time.monotonic() - start


def measure(foxscope, name, folder):
    weights = sorted(folder.glob("*.safetensors"))
    size = sum(file.stat().st_size for file in weights)
    forget_pages()
    disk = seconds_of(["cat", *weights])
    print(f"  {size / 1e9:.1f} GB from the disk: {disk:.1f} s, {size / disk / 1e9:.2f} GB/s", flush=True)
    run = folder / "run.h5"
    ids = folder / "ids.json"
    generator = random.Random(0)
    ids.write_text(json.dumps([generator.randrange(90000) for _ in range(65536)]))
    forget_pages()
    said = subprocess.run([foxscope, "run", "--model", f"first={folder}", "--model", f"again={folder}", "--ids", ids, "--length",
                           "16384", "--keep", "loss", "-o", run, "--force", "--json"], check=True, stdout=subprocess.PIPE).stdout
    first, again = json.loads(said)["models"]
    print(f"  loaded in {first['seconds']['load']:.1f} s, from the page cache in {again['seconds']['load']:.1f} s")
    print(f"  losses of 16,384 tokens: {again['tokens_per_second']:,.0f} tokens/s", flush=True)
    subprocess.run([foxscope, "run", "-q", "--model", f"m={folder}", "--ids", ids, "-o", run, "--force"], check=True)
    for quantity, head in (("attention", "3:0"), ("mixing", "0:0")):
        command = [foxscope, "map", run, "--head", head, "--quantity", quantity, "--size", "1024x1024", "-q", "-o",
                   folder / "map.npy", "--force"]
        seconds_of(command)
        print(f"  map of {quantity}, layer and head {head}, 65,536 tokens: {seconds_of(command):.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("foxscope", metavar="FOXSCOPE")
    parser.add_argument("names", nargs="*", choices=[*LAYERS, []], metavar="NAME")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp"))
    options = parser.parse_args()
    for name in options.names or LAYERS:
        folder = options.folder / f"published-{name}"
        make(name, folder)
        try:
            measure(options.foxscope, name, folder)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
