"""Evaluations of several processes at once, as torchrun and srun start them: the file is that of one process."""

import json
import unittest

import numpy
from support import FOX, CommandLineTest, TogetherMixin, places_of
from test_eval_resume import PartialTest
from test_run import contents


class SameFileMixin(TogetherMixin):
    def expect_same(self, one, together):
        expected, found = contents(one), contents(together)
        self.assertEqual(expected.keys(), found.keys())
        for key in expected.keys() - {"@command_line"}:
            numpy.testing.assert_array_equal(expected[key], found[key], err_msg=key)


class NeedleTest(SameFileMixin, CommandLineTest):
    def test_the_file_is_that_of_one_process(self):
        haystack = self.write("haystack.txt", "The hill was green, and nobody saw the fox. " * 200)
        arguments = ["eval", "needle", "--model", FOX, "--haystack", haystack, "--lengths", "300,400", "--depths",
                     "0,50,100", "-q", "-o"]
        self.done(*arguments, self.folder / "one.h5")
        self.done_together([*arguments, self.folder / "two.h5"])
        self.expect_same(self.folder / "one.h5", self.folder / "two.h5")


class LossTest(SameFileMixin, PartialTest):
    def test_the_file_is_that_of_one_process(self):
        self.done(*self.arguments(self.folder / "one.h5"))
        for count in [2, 3]:
            output = self.folder / f"{count}.h5"
            summary = json.loads(self.done_together(self.arguments(output, "--json"), count))
            self.assertEqual([model["windows"] for model in summary["models"]], [8, 8])
            self.expect_same(self.folder / "one.h5", output)

    def test_what_was_done_is_gone_on_with(self):
        self.done(*self.arguments(self.folder / "one.h5"))
        process = self.start_one(self.arguments(self.output), {})
        self.wait_for_windows(process, self.partial, self.size_after(2))
        process.kill()
        process.communicate()
        summary = json.loads(self.done_together(self.arguments(self.output, "--json", "-q")))
        self.assertGreaterEqual(sum(model["windows_resumed"] for model in summary["models"]), 2)
        self.assertFalse(self.partial.exists())
        self.expect_same(self.folder / "one.h5", self.output)

    def test_what_is_wrong_is_told_once(self):
        self.output.write_text("mine")
        (_, first, status), (_, second, _) = self.ended(self.start(self.arguments(self.output)))
        self.assertEqual((status, second), (1, ""), first)
        self.assertEqual(first.count("\n"), 1, first)
        self.assertIn("eval.h5", first)
        self.assertEqual(self.output.read_text(), "mine")

    def test_a_lost_process_ends_the_others(self):
        self.path = self.corpus("corpus.jsonl", repeat=40)
        processes = self.start(self.arguments(self.output, windows=600))
        self.wait_for_windows(processes[0], self.partial, self.size_after(1))
        processes[1].kill()
        _, said, status = self.ended(processes)[0]
        self.assertEqual(status, 1, said)
        self.assertIn("process 1 of 2 is lost", said)
        self.assertIn("the same command again", said)


class HeadsTest(SameFileMixin, PartialTest):
    def test_the_file_is_that_of_one_process(self):
        arguments = ["eval", "heads", *self.arguments(self.output)[2:]]
        self.done(*arguments[:-1], self.folder / "one.h5")
        for count in [2, 3]:
            output = self.folder / f"{count}.h5"
            self.done_together([*arguments[:-1], output], count)
            self.expect_same(self.folder / "one.h5", output)


class AloneTest(CommandLineTest):
    def test_what_is_not_shared_says_so(self):
        text = self.write("text.txt", "The fox ran. " * 40)
        slurm = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "node",
                 "SLURM_JOB_ID": "7"}
        output = self.folder / "out.h5"
        for name, options in [("eval sweep", ["--text", text, "-o", output]),
                              ("eval surprisal", ["--text", text, "-o", output]),
                              ("run", ["--text", text, "-o", output]), ("serve", ["--port", "0"])]:
            for place in [places_of(2)[0], slurm]:
                self.fails(2, [f"{name} works in one process", "without torchrun or srun"], *name.split(), "--model",
                           FOX, *options, environment=place, output=output)


if __name__ == "__main__":
    unittest.main()
