"""architectures.py FOXSCOPE --data TRAIN --heldout TEXTS -o OUT: seven kinds of memory, of one size and on one data.

Trains FoX, the Transformer, Mamba-2, HGRN2, GLA, DeltaNet and Gated DeltaNet from recipes with several seeds. Measures their
losses on held-out windows, and the decay times of the first seed's heads while it learned. Then it writes what
docs/architectures.md shows:

    results.json    losses with their errors, over the first tokens of the windows and over all, and of every window
    losses.md       the table of losses
    memories/NAME   a folder for `foxscope figure training`: the log, and decay times on held-out text
    figure.json     losses by position, and decay times over the tokens seen: for `foxscope figure spec`

What is there already is not made again: the same command goes on after an interruption or --seconds. Needs numpy and h5py.
"""

import argparse
import collections
import csv
import json
import math
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

try:
    import h5py
    import numpy
except ModuleNotFoundError as missing:
    # --help needs neither.
    if not {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(f"architectures.py: needs numpy and h5py ({missing}): python -m pip install numpy h5py")

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "resources" / "recipes"
# Name: its recipe without the size, and whether its heads forget. Those that train longest come first.
MODELS = {
    "Mamba-2": ("mamba2", True),
    "Gated-DeltaNet": ("gated_deltanet", True),
    "HGRN2": ("hgrn2", True),
    "DeltaNet": ("delta_net", False),
    "GLA": ("gla", True),
    "Transformer": ("transformer-pro", False),
    "FoX": ("fox-pro", True),
}
BASE = "FoX"
# Order of the figure, and colours and styles of lines.
LOOKS = {"FoX": "0:0", "Transformer": "4:1", "Gated-DeltaNet": "1:0", "Mamba-2": "2:2", "GLA": "3:3", "HGRN2": "5:1",
         "DeltaNet": "0:2"}
# Decay times are measured after these fifteenths of the training.
MEASURED, PARTS = (1, 2, 4, 8), 15


class Failure(Exception):
    """A program that ended otherwise than asked: what it said."""


class Commands:
    """Runs the program, several at once, until there is no more time."""

    def __init__(self, program, seconds):
        self.program = program
        self.end = time.monotonic() + seconds
        self.running = set()
        self.lock = threading.Lock()

    def late(self):
        return time.monotonic() >= self.end

    def run(self, *arguments):
        """False if the time was over before the program was done."""
        with self.lock:
            if self.late():
                return False
            process = subprocess.Popen([self.program, *map(str, arguments)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
            self.running.add(process)
        said = process.communicate()[1]
        with self.lock:
            self.running.remove(process)
        if process.returncode == 0:
            return True
        if process.returncode in (130, -signal.SIGTERM, -signal.SIGINT):
            return False
        raise Failure(said.strip() or f"foxscope {arguments[0]} ended with status {process.returncode}")

    def stop(self):
        """Ends what runs: a training saves its step."""
        with self.lock:
            self.end = time.monotonic()
            for process in self.running:
                process.terminate()


class Comparison:
    """One folder of results."""

    def __init__(self, options):
        self.options = options
        self.folder = options.output
        self.commands = Commands(options.program, options.seconds)
        self.steps = options.max_tokens // options.batch_tokens
        part = max(1, self.steps // PARTS)
        self.save_every = part
        self.measured_steps = sorted({min(self.steps, part * count) for count in MEASURED} | {self.steps})

    def training(self, model, seed):
        return self.folder / f"{model}-{seed}"

    def evaluation(self, model, seed):
        return self.folder / f"{model}-{seed}.h5"

    def heads(self, model):
        return self.folder / f"{model}-heads.csv"

    def checkpoint(self, model, seed, step):
        return self.training(model, seed) / "checkpoints" / f"step-{step:06}"

    def train(self, model, seed, device):
        options = self.options
        if self.checkpoint(model, seed, self.steps).exists():
            return True
        first = seed == options.seeds[0]
        more = ["--micro-batch-tokens", options.micro_batch_tokens] if options.micro_batch_tokens else []
        return self.commands.run(
            "train", "-q", "--recipe", RECIPES / f"{MODELS[model][0]}-{options.size}.json", "--data", options.data,
            "--length", options.length, "--batch-tokens", options.batch_tokens, "--max-tokens", options.max_tokens,
            "--warmup-tokens", options.warmup_tokens, "--seed", seed, "--save-every", self.save_every if first else self.steps,
            "--keep", "all" if first else "last", "--device", device, *more, "--resume-or-start", self.training(model, seed))

    def measure_losses(self, model, seed, device):
        options, output = self.options, self.evaluation(model, seed)
        return output.exists() or self.commands.run(
            "eval", "loss", "-q", "--model", f"{model}={self.checkpoint(model, seed, self.steps)}", "--corpus",
            options.heldout, "--length", options.lengths[-1], "--windows", options.windows, "--device", device, "-o", output)

    def measure_heads(self, model, seed, device):
        options, output = self.options, self.heads(model)
        if seed != options.seeds[0] or not MODELS[model][1] or output.exists():
            return True
        models = [word for step in self.measured_steps
                  for word in ("--model", f"{step}={self.checkpoint(model, seed, step)}")]
        return self.commands.run("eval", "heads", "-q", *models, "--corpus", options.heldout, "--length", options.length,
                                 "--windows", options.head_windows, "--device", device, "-o", output)

    def make(self):
        """Trains and measures all.
        @returns a line for each model and seed that is not done"""
        jobs = collections.deque((model, seed) for seed in self.options.seeds for model in self.options.models)
        left = []

        def work(device):
            while True:
                try:
                    model, seed = jobs.popleft()
                except IndexError:
                    return
                name = f"{model}, seed {seed}"
                try:
                    if all(step(model, seed, device) for step in (self.train, self.measure_losses, self.measure_heads)):
                        print(f"{name}: done", file=sys.stderr, flush=True)
                    else:
                        left.append(f"{name}: not done: the same command goes on")
                except Failure as failure:
                    left.append(f"{name}: {failure}")

        threads = [threading.Thread(target=work, args=(device,))
                   for _ in range(self.options.at_once) for device in self.options.devices]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads) and not self.commands.late():
                time.sleep(0.1)
        except KeyboardInterrupt:
            pass
        self.commands.stop()
        for thread in threads:
            thread.join()
        return sorted(left)

    def write_losses(self):
        """Writes results.json and losses.md."""
        options = self.options
        windows = {model: [read_windows(self.evaluation(model, seed), options.lengths) for seed in options.seeds]
                   for model in options.models}
        models = {}
        for model in options.models:
            entry = {"parameters": parameters(self.checkpoint(model, options.seeds[0], self.steps)),
                     "documents": windows[model][0][1].tolist(), "lengths": {}}
            documents = windows[model][0][1]
            for place, length in enumerate(options.lengths):
                losses = numpy.array([means[place] for means, _ in windows[model]])
                numbers = {**estimate(losses, documents), "window_losses": losses.tolist()}
                if BASE in windows and model != BASE:
                    base = numpy.array([means[place] for means, _ in windows[BASE]])
                    numbers[f"more_than_{BASE}"] = estimate(losses - base, documents)
                entry["lengths"][length] = numbers
            models[model] = entry
        results = {"max_tokens": options.max_tokens, "seeds": options.seeds, "models": models}
        (self.folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        table = losses_table(models, options.lengths)
        (self.folder / "losses.md").write_text(table)
        print(table, end="")

    def write_memories(self):
        """Writes folders for `foxscope figure training`, with decay times on held-out text."""
        for model in self.options.models:
            folder = self.folder / "memories" / model
            (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
            for name in ["recipe.json", "log.jsonl"]:
                shutil.copy(self.training(model, self.options.seeds[0]) / name, folder / name)
            lines = []
            for step in self.measured_steps:
                line = {"step": step, "tokens": step * self.options.batch_tokens}
                if MODELS[model][1]:
                    line["decay_time"] = decay_times(self.heads(model), str(step))
                lines.append(json.dumps(line) + "\n")
            (folder / "evaluation.jsonl").write_text("".join(lines))

    def write_figure(self):
        options = self.options
        models = [model for model in LOOKS if model in options.models]
        looks = [f"{model}={LOOKS[model]}" for model in models]
        losses = {"kind": "ablation", "files": [self.evaluation(model, options.seeds[0]).name for model in models],
                  "options": {"base": models[0], "train-length": options.length, "smooth": options.smooth, "look": looks}}
        training = {"kind": "training", "files": [f"memories/{model}" for model in models], "options": {"look": looks}}
        page = {"foxscope_figure": 1, "options": {"width": "iclr"}, "panels": [[losses], [training]]}
        (self.folder / "figure.json").write_text(json.dumps(page, indent=1) + "\n")


def decay_times(path, model):
    """[layers][heads] decay times, tokens, of one model of a file of `eval heads`; None where a head forgets nothing."""
    layers = collections.defaultdict(list)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["model"] == model:
                tokens = float(row["rate_decay_time"] or "inf")
                layers[int(row["layer"])].append(tokens if math.isfinite(tokens) else None)
    return [layers[layer] for layer in sorted(layers)]


def parameters(checkpoint):
    """How many numbers the weights of a checkpoint are."""
    total = 0
    for path in checkpoint.glob("model*.safetensors"):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        total += sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
    return total


def read_windows(path, lengths):
    """Mean loss of every window over its first tokens, nats [lengths, windows], and the document that it lies in."""
    with h5py.File(path) as file:
        (model,) = file["models"].values()
        losses = model["loss/per_token_loss"][:]
        return [losses[:, :length].mean(axis=1, dtype=float) for length in lengths], model["windows/document"][:]


def estimate(losses, documents):
    """Mean of losses [seeds, windows] and of each seed, and standard errors: over documents, each left out in turn
    (docs/evaluation.md, Losses), and over seeds."""
    by_window, by_seed = losses.mean(axis=0), losses.mean(axis=1)
    groups = [documents == document for document in numpy.unique(documents)]
    shifts = [(by_window[group] - by_window.mean()).sum() / (len(by_window) - group.sum()) for group in groups
              if group.sum() < len(by_window)]
    count = len(groups)
    return {
        "mean": float(by_window.mean()),
        "seeds": by_seed.tolist(),
        "document_error": math.sqrt((count - 1) / count * float(numpy.square(shifts).sum())) if count > 1 else None,
        "seed_error": float(by_seed.std(ddof=1)) / math.sqrt(len(by_seed)) if len(by_seed) > 1 else None,
    }


def with_errors(entry):
    """The mean, ± over documents, ± over seeds."""
    errors = [entry["document_error"], entry["seed_error"]]
    return " ± ".join([f"{entry['mean']:.3f}"] + ["–" if error is None else f"{error:.3f}" for error in errors])


def losses_table(models, lengths):
    head = "".join(f" {length} tokens | more than {BASE} |" for length in lengths)
    lines = [f"| model | parameters |{head}", "|---|---|" + "---|---|" * len(lengths)]
    for name in sorted(models, key=lambda name: models[name]["lengths"][lengths[-1]]["mean"]):
        cells = [f"{models[name]['parameters'] / 1e6:.2f}M"]
        for length in lengths:
            entry = models[name]["lengths"][length]
            more = entry.get(f"more_than_{BASE}")
            cells += [with_errors(entry), with_errors(more) if more else "–"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", metavar="FOXSCOPE")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="texts to learn from")
    parser.add_argument("--heldout", type=pathlib.Path, required=True, help="texts to measure on")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--size", default="12m", help="of the recipes, as in fox-pro-12m")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--length", type=int, default=2048, help="tokens of a row in training")
    parser.add_argument("--batch-tokens", type=int, default=65536)
    parser.add_argument("--micro-batch-tokens", type=int, help="for several trainings at once on a GPU")
    parser.add_argument("--max-tokens", type=int, default=98304000)
    parser.add_argument("--warmup-tokens", type=int, default=6553600)
    parser.add_argument("--lengths", nargs="+", type=int, default=[2048, 8192],
                        help="losses are over so many first tokens of a window; the last is the windows' own length")
    parser.add_argument("--windows", type=int, default=96, help="held-out windows")
    parser.add_argument("--head-windows", type=int, default=12, help="windows that decay times are measured over")
    parser.add_argument("--devices", nargs="+", default=["auto"])
    parser.add_argument("--at-once", type=int, default=1, help="trainings at once on a device")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long; the same command goes on")
    parser.add_argument("--smooth", type=int, default=301, help="positions of the figure's moving average")
    return parser.parse_args()


def main():
    comparison = Comparison(read_options())
    comparison.folder.mkdir(parents=True, exist_ok=True)
    left = comparison.make()
    if left:
        print("\n".join(left), file=sys.stderr)
        return 1
    comparison.write_losses()
    comparison.write_memories()
    comparison.write_figure()
    return 0


if __name__ == "__main__":
    sys.exit(main())
