"""`foxscope train` in several processes at once, as torchrun and srun start them: the same training as one process's."""

import shutil
import signal
import time
import unittest

import numpy
import safetensors.numpy
from support import TogetherMixin, free_port, places_of
from test_train import TrainTest, exact, last_checkpoint, lines


class SameTrainingTest(TogetherMixin, TrainTest):
    def test_two_processes_make_the_goldens_steps(self):
        said = self.done_together(self.golden_arguments(self.folder / "out"))
        self.assertIn("in each of 2 processes", said)
        self.assertIn("step 30/30", said)
        self.expect_golden(self.folder / "out", "fox-pro")

    # Of weights that do not divide among them, too.
    def test_four_make_them(self):
        self.done_together(self.golden_arguments(self.folder / "out", "transformer-pro"), 4)
        self.expect_golden(self.folder / "out", "transformer-pro")

    def test_a_step_of_slurm(self):
        port = str(free_port())
        places = [{"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": str(rank),
                   "SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "localhost", "MASTER_PORT": port} for rank in range(2)]
        self.done_together(self.golden_arguments(self.folder / "out"), places=places)
        self.expect_golden(self.folder / "out", "fox-pro")

    def test_evaluations_and_curves_are_those_of_one(self):
        held_out = self.write("held-out.txt", "Nobody saw the fox, for the fox was quick. " * 60)
        options = ["--save-every", 4, "--eval", held_out]
        self.trained(self.text_arguments(self.folder / "one", *options))
        self.done_together(self.text_arguments(self.folder / "two", *options))
        one, two = (lines(self.folder / name / "evaluation.jsonl") for name in ["one", "two"])
        self.assertEqual([line["step"] for line in one], [line["step"] for line in two])
        for alone, together in zip(one, two, strict=True):
            self.assertEqual(alone.keys(), together.keys())
            self.assertAlmostEqual(alone["loss"], together["loss"], delta=2e-4)
            numpy.testing.assert_allclose(alone["decay_time"], together["decay_time"], rtol=1e-3)
            for curve in ["training_loss_by_position", "loss_by_position"]:
                numpy.testing.assert_allclose(alone[curve]["loss"], together[curve]["loss"], rtol=1e-3)

    def test_going_on(self):
        whole = self.folder / "whole"
        self.done_together(self.golden_arguments(whole, "fox-pro", "--save-every", 10, "--keep", "all"))
        for name, count in [("two", 2), ("one", 1), ("four", 4)]:
            output = self.folder / name
            shutil.copytree(whole, output)
            for step in [20, 30]:
                shutil.rmtree(output / "checkpoints" / f"step-0000{step}")
            if count == 1:
                self.trained(["train", "--resume", output])
            else:
                self.done_together(["train", "--resume", output], count)
            if count == 2:
                self.expect_equal(output, whole)  # bit for bit
                continue
            numpy.testing.assert_allclose(exact(output), exact(whole), rtol=1e-3)
            moments, wanted = (safetensors.numpy.load_file(last_checkpoint(folder) / "optimizer.safetensors")
                               for folder in [output, whole])
            self.assertEqual(moments.keys(), wanted.keys())
            for parameter, values in moments.items():
                bound = 1e-3 * numpy.abs(wanted[parameter]).max()
                numpy.testing.assert_allclose(values, wanted[parameter], rtol=0, atol=bound, err_msg=parameter)


class EndTest(TogetherMixin, TrainTest):
    def long_training(self):
        return self.golden_arguments(self.folder / "out", "fox-pro", "--max-tokens", 512 * 100_000)

    def test_all_stop_when_one_is_interrupted(self):
        for told in [0, 1]:
            output = self.folder / "out"
            processes = self.start(self.long_training())
            self.wait_for_steps(processes[0], output, 5)
            processes[told].send_signal(signal.SIGINT)
            (_, first, status), (_, second, other) = self.ended(processes)
            self.assertEqual((status, other), (130, 130), first + second)
            steps = len(lines(output / "log.jsonl"))
            self.assertIn(f"{steps} steps are done and saved", first)
            self.assertEqual(second, "")
            self.assertEqual(last_checkpoint(output).name, f"step-{steps:06}")
            shutil.rmtree(output)

    def test_a_lost_process_ends_the_others(self):
        for lost in [0, 1]:
            output = self.folder / "out"
            processes = self.start(self.long_training())
            self.wait_for_steps(processes[0], output, 5)
            processes[lost].kill()
            began = time.monotonic()
            _, said, status = self.ended(processes)[1 - lost]
            self.assertLess(time.monotonic() - began, 60)
            self.assertEqual(status, 1)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn(f"process {lost} of 2 is lost", said)
            self.assertIn(f"--resume {output}", said)
            shutil.rmtree(output)

    def refused(self, code, words, arguments, count=2):
        processes = self.start(arguments, count)
        began = time.monotonic()
        (_, first, status), *others = self.ended(processes)
        self.assertLess(time.monotonic() - began, 30, "they wait for each other")
        self.assertEqual(status, code, first)
        self.assertEqual(first.count("\n"), 1, first)
        for word in words:
            self.assertIn(word, first)
        for _, said, other in others:
            self.assertEqual(said, "")
            self.assertIn(other, [1, 2])
        self.assertFalse((self.folder / "out").exists())

    def test_bad_input_is_told_once(self):
        self.refused(2, ["--batch-tokens 512", "3 processes", "multiple of 384"],
                     self.golden_arguments(self.folder / "out"), count=3)
        self.refused(2, ["--micro-batch-tokens 256", "does not divide the 384 tokens"],
                     self.golden_arguments(self.folder / "out", "fox-pro", "--batch-tokens", 768,
                                           "--micro-batch-tokens", 256))
        self.refused(1, ["missing.txt"], self.text_arguments(self.folder / "out", "--data", self.folder / "missing.txt"))

    # What only one of them meets, the first tells.
    def test_what_one_process_meets(self):
        places = places_of(2)
        places[1]["XDG_CACHE_HOME"] = "/dev/null/nowhere"
        processes = self.start(self.text_arguments(self.folder / "out"), places=places)
        (_, first, status), (_, second, other) = self.ended(processes)
        self.assertEqual((status, other, second), (1, 1, ""), first)
        self.assertEqual(first.count("\n"), 1, first)
        self.assertIn("process 1 of 2: ", first)
        self.assertIn("/dev/null/nowhere", first)

    def test_places_that_make_no_sense(self):
        for change, words in [({"RANK": "2"}, ["RANK", "from 0 to 1", "torchrun"]),
                              ({"MASTER_PORT": "http"}, ["MASTER_PORT", "http"])]:
            place = {**places_of(2)[0], **change}
            self.fails(2, words, *self.golden_arguments(self.folder / "out"), environment={**self.environment, **place})

    def test_the_folder_is_not_the_same(self):
        whole = self.folder / "whole"
        self.done_together(self.golden_arguments(whole, "fox-pro", "--save-every", 10, "--keep", "all"))
        other = self.folder / "other"
        shutil.copytree(whole, other)
        shutil.rmtree(other / "checkpoints" / "step-000030")
        places = places_of(2)
        processes = [self.start_one(["train", "--resume", folder], place)
                     for folder, place in zip([whole, other], places, strict=True)]
        (_, first, status), (_, second, _) = self.ended(processes)
        self.assertEqual((status, second), (1, ""), first)
        self.assertIn("process 1 goes on from step 20, process 0 from step 30", first)


if __name__ == "__main__":
    unittest.main()
