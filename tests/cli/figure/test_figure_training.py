"""`foxscope figure training`: folders of trainings to pages, and folders that are none."""

import json
import shutil
import subprocess
import unittest

from support import DATA, DRAWS, CommandLineTest


def write_training(folder, steps=60, gates=True, held_out=True):
    """A folder as `foxscope train` leaves it, without weights."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "recipe.json").write_text("{}")
    log, measures = [], []
    for step in range(1, steps + 1):
        log.append({"step": step, "tokens": 8192 * step, "loss": 9 - step / 20, "grad_norm": 1.0, "lr": 0.001})
        if step % 10 == 0:
            line = {"step": step, "tokens": 8192 * step}
            if held_out:
                line |= {"loss": 9.1 - step / 20, "loss_error": 0.1, "rows": 8,
                         "loss_by_position": {"edges": [0, 1], "loss": [9.0]}}
            if gates:
                line["decay_time"] = [[step, None], [2 * step, 100 + step]]
            measures.append(line)
    for name, lines in [("log.jsonl", log), ("evaluation.jsonl", measures)]:
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@unittest.skipUnless(DRAWS, "this build draws nothing")
class FigureTrainingTest(CommandLineTest):
    def training(self, name, **options):
        return write_training(self.folder / name, **options)

    def draw(self, *arguments, output="training.pdf"):
        path = self.folder / output
        result = self.foxscope("figure", "training", *arguments, "-o", path, "--force")
        self.assertEqual((result.returncode, result.stdout), (0, b""), result.stderr.decode())
        return path, result.stderr.decode()

    def words(self, path):
        text = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout
        return " ".join(text.split())

    def refuses(self, message, *arguments, code=1):
        output = self.folder / "refused.pdf"
        self.fails(code, message, "figure", "training", *arguments, "-o", output, output=output)

    @unittest.skipUnless(shutil.which("pdftotext"), "pdftotext is missing")
    def test_losses_and_decay_times(self):
        path, notes = self.draw(self.training("fox"))
        text = self.words(path)
        for words in ["(a) Loss", "(b) Decay times of heads", "tokens seen (thousands)", "decay time (tokens)",
                      "layer 0", "layer 1", "held-out, ± 1 standard error"]:
            self.assertIn(words, text)
        self.assertIn("fox: heads that forget nothing at a save have a gap there: 0:1", notes)

    @unittest.skipUnless(shutil.which("pdftotext"), "pdftotext is missing")
    def test_several_trainings_have_names(self):
        fox, base = self.training("fox"), self.training("base", gates=False)
        path, notes = self.draw(f"FoX={fox}", f"plain={base}", "--smooth", 5, "--label", "plain=Transformer",
                                "--x-limits", "0:409600", "--title", "Two trainings")
        text = self.words(path)
        for words in ["FoX", "Transformer", "lines: mean of 5 steps", "Decay times of heads, FoX", "Two trainings"]:
            self.assertIn(words, text)
        self.assertIn("plain: no decay times were measured", notes)
        info = subprocess.run(["pdfinfo", path], capture_output=True, check=True, text=True).stdout
        self.assertIn("command: foxscope figure training FoX=fox plain=base --smooth 5", info)
        self.assertIn("training: FoX: 60 steps, 491520 tokens, loss 6.0000", info)
        self.assertNotIn(str(self.folder), info)

    def test_the_same_command_gives_the_same_bytes_in_every_format(self):
        folder = self.training("fox")
        for output in ["a.pdf", "a.svg", "a.png"]:
            first = self.draw(folder, output=output)[0].read_bytes()
            self.assertEqual(self.draw(folder, output=output)[0].read_bytes(), first)

    def test_a_training_that_a_program_wrote(self):
        output = self.folder / "golden"
        self.done("train", "--recipe", DATA / "training/recipe.json", "--init", DATA / "training/fox-pro/init",
                  "--data", DATA / "training/ids.safetensors", "--length", 128, "--order", "sequential", "--max-tokens",
                  2048, "--warmup-tokens", 512, "-o", output)
        self.draw(output)

    def test_a_spec_draws_it(self):
        spec = self.write("spec.json", json.dumps({
            "foxscope_figure": 1, "kind": "training", "options": {"width": "icml", "smooth": 3}}))
        self.done("figure", "spec", spec, self.training("fox"), "-o", self.folder / "spec.pdf")
        self.assertGreater((self.folder / "spec.pdf").stat().st_size, 1000)

    def test_what_is_no_training_is_told_in_a_line(self):
        self.refuses("there is no such folder", self.folder / "missing")
        self.refuses("is no training: name the folder that `foxscope train` wrote", DATA / "fox-pro")
        empty = self.training("empty", steps=0)
        self.refuses("has no step yet: wait for the training's first", empty)
        damaged = self.training("damaged")
        (damaged / "log.jsonl").write_text('{"step": 1, "tokens": 8}\n')
        self.refuses("line 1 lacks a figure, or one is of another kind", damaged)
        (damaged / "log.jsonl").write_text("words\n")
        self.refuses("line 1 is not a step of a training", damaged)
        twice = self.training("twice")
        log = (twice / "log.jsonl").read_text()
        (twice / "log.jsonl").write_text(log + log)
        self.refuses("line 61 does not follow the one before it", twice)
        other = self.training("other")
        lines = (other / "evaluation.jsonl").read_text().splitlines()
        lines[1] = json.dumps(json.loads(lines[1]) | {"decay_time": [[1.0]]})
        (other / "evaluation.jsonl").write_text("\n".join(lines) + "\n")
        self.refuses("evaluation.jsonl: line 2 has decay times of 1 layers of 1 heads, line 1 of ", other)
        self.refuses("does the file mix two trainings? Delete the lines of the other one", other)
        lines[1] = json.dumps(json.loads(lines[1]) | {"decay_time": [[1.0], [2.0, 3.0]]})
        (other / "evaluation.jsonl").write_text("\n".join(lines) + "\n")
        self.refuses("line 2 has decay times of other heads in some layers than in others: delete the line", other)
        del lines[1]
        (other / "evaluation.jsonl").write_text("\n".join(lines) + "\n")
        self.done("figure", "training", other, "-o", self.folder / "mended.pdf")

    def test_options_that_are_none(self):
        fox = self.training("fox")
        self.refuses("--smooth 4: use an odd number of steps", fox, "--smooth", 4, code=2)
        self.refuses("--colours other: the figure has fox", fox, "--colour", "other=#112233", code=2)
        self.refuses("two models are named fox", fox, fox, code=2)
        self.refuses("write NAME=DIR", "name=", code=2)

    def test_info_names_what_reads_a_training(self):
        fox = self.training("fox")
        self.fails(1, [f"{fox}: is a training: foxscope figure training {fox}", f"in {fox}/checkpoints"], "info", fox)


if __name__ == "__main__":
    unittest.main()
