"""Several processes beside others that were given the same port: each job ends as if it were alone, or is refused."""

import re
import shutil
import signal
import time
import unittest

import safetensors.numpy
from support import FOX, SOURCE, CommandLineTest, TogetherMixin, free_port, places_of
from test_eval_together import SameFileMixin
from test_train import TrainTest, exact, lines

# Every refusal names what to do.
REFUSED = re.compile(r"give each job a MASTER_PORT of its own|is lost")


def step_of_slurm(count, port, job="7", step="0"):
    """What srun sets for each task of a step; without a port it is the step's own."""
    places = [{"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(count), "SLURM_LOCALID": str(rank),
               "SLURM_JOB_ID": job, "SLURM_STEP_ID": step, "SLURM_STEP_NODELIST": "localhost"}
              for rank in range(count)]
    return [{**place, "MASTER_PORT": str(port)} for place in places] if port else places


# In which order two jobs of two processes each come.
ORDERS = [[("A", 0), ("A", 1), ("B", 0), ("B", 1)], [("A", 0), ("B", 0), ("B", 1), ("A", 1)],
          [("B", 1), ("A", 0), ("A", 1), ("B", 0)]]


class NeighboursMixin(TogetherMixin):
    def both_ended(self, commands, places, order):
        """Two jobs side by side, each ended by its starter where one of its processes fails: exit status and errors of
        every process by job."""
        jobs = {"A": [], "B": []}
        for job, rank in order:
            jobs[job].append(self.start_one(commands[job], places[job][rank]))
        deadline = time.monotonic() + 120
        running = dict(jobs)
        while running:
            self.assertLess(time.monotonic(), deadline)
            for job, processes in list(running.items()):
                ends = [process.poll() for process in processes]
                if any(ends):
                    for process in processes:
                        process.terminate()
                if None not in ends or any(ends):
                    del running[job]
            time.sleep(0.01)
        return {job: [(status, errors) for _, errors, status in self.ended(processes)]
                for job, processes in jobs.items()}

    def expect_alone_or_refused(self, ended, check):
        """@param check: of a job that all of its processes have done"""
        for job, processes in ended.items():
            said = "".join(errors for _, errors in processes)
            if all(status == 0 for status, _ in processes):
                self.assertEqual(said, "")
                check(job)
            else:
                self.assertRegex(said, REFUSED)
        return [job for job, processes in ended.items() if all(status == 0 for status, _ in processes)]


class TrainingsTest(NeighboursMixin, TrainTest):
    def setUp(self):
        super().setUp()
        self.options = {"A": [], "B": ["--lr", 0.02]}
        for job in "AB":
            self.done_together(self.arguments(job, "alone"))

    def arguments(self, job, folder):
        return self.golden_arguments(self.folder / folder / job, "fox-pro", *self.options[job])

    def side_by_side(self, places, order):
        shutil.rmtree(self.folder / "beside", ignore_errors=True)
        commands = {job: self.arguments(job, "beside") for job in "AB"}
        return self.expect_alone_or_refused(
            self.both_ended(commands, places, order),
            lambda job: self.assertEqual(exact(self.folder / "beside" / job), exact(self.folder / "alone" / job)))

    def test_steps_of_one_job_that_share_a_port(self):
        for order in ORDERS:
            port = free_port()
            done = self.side_by_side({job: step_of_slurm(2, port, step=str("AB".index(job))) for job in "AB"}, order)
            self.assertGreaterEqual(len(done), 1, "who comes first is not disturbed")

    def test_steps_of_one_job_have_ports_of_their_own(self):
        job = str(free_port())
        done = self.side_by_side({name: step_of_slurm(2, None, job, str("AB".index(name))) for name in "AB"}, ORDERS[1])
        self.assertEqual(done, ["A", "B"])

    # Nothing but the recipe tells them apart.
    def test_jobs_without_a_name(self):
        for order in ORDERS:
            places = places_of(2)
            self.side_by_side({"A": places, "B": places}, order)

    def test_who_comes_too_late_is_sent_away(self):
        output = self.folder / "long"
        port = free_port()
        places = step_of_slurm(2, port)
        command = self.golden_arguments(output, "fox-pro", "--max-tokens", 512 * 100_000)
        processes = self.start(command, places=places)
        self.wait_for_steps(processes[0], output, 5)
        late = self.start(command, places=[places[1], step_of_slurm(3, port)[2], step_of_slurm(2, port, "8")[1]])
        for (_, said, status), words in zip(self.ended(late), ["another process has this number",
                                                               "2 processes instead of 3",
                                                               'job "7.0" instead of job "8.0"'], strict=True):
            self.assertEqual((status, said.count("\n")), (1, 1), said)
            self.assertIn(words, said)
            self.assertIn("give each job a MASTER_PORT of its own", said)
        processes[0].send_signal(signal.SIGINT)
        self.assertEqual([status for *_, status in self.ended(processes)], [130, 130])
        self.assertGreaterEqual(len(lines(output / "log.jsonl")), 5)


class OneRecipeTest(TogetherMixin, TrainTest):
    def refused(self, words, first, second):
        processes = [self.start_one(arguments, place)
                     for arguments, place in zip([first, second], places_of(2), strict=True)]
        (_, said, status), (_, other, other_status) = self.ended(processes)
        self.assertEqual((status, other_status, other), (1, 1, ""), said)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn(f"process 1 of 2 does other work than process 0: {words}: start all with the same command", said)
        self.assertFalse((self.folder / "out").exists())

    def changed_init(self):
        """The same model with one other weight."""
        folder = self.folder / "init"
        shutil.copytree(SOURCE / "tests" / "data" / "training" / "fox-pro" / "init", folder)
        path = folder / "model.safetensors"
        tensors = safetensors.numpy.load_file(path)
        name = min(tensors)
        tensors[name] = tensors[name].copy()
        tensors[name].flat[0] += 1
        safetensors.numpy.save_file(tensors, path)
        return folder

    def test_what_differs_is_named(self):
        output = self.folder / "out"
        recipe = self.golden_arguments(output)
        for options, words in [(["--lr", 0.05], '"lr": 0.05 instead of "lr": 0.01'),
                               (["--max-tokens", 512 * 20], '"max_tokens": 10240 instead of "max_tokens": 15360'),
                               (["--seed", 5], '"seed": 5 instead of "seed": 0')]:
            self.refused(words, recipe, self.golden_arguments(output, "fox-pro", *options))

    def test_what_files_hold_is_compared(self):
        output = self.folder / "out"
        recipe = self.golden_arguments(output)
        for options, words in [(["--init", SOURCE / "tests/data/training/transformer-pro/init"], "config.json [0-9a-f]+"),
                               (["--init", self.changed_init()], "weights of [0-9]+ numbers, whose bits add up to"),
                               (["--data", self.other_data()], "data [0-9a-f]+")]:
            processes = [self.start_one(arguments, place) for arguments, place in
                         zip([recipe, self.golden_arguments(output, "fox-pro", *options)], places_of(2), strict=True)]
            (_, said, status), (_, other, other_status) = self.ended(processes)
            self.assertEqual((status, other_status, other), (1, 1, ""), said)
            self.assertRegex(said, rf"process 1 of 2 does other work than process 0: {words}")
            self.assertFalse(output.exists())

    def other_data(self):
        path = SOURCE / "tests" / "data" / "training" / "ids.safetensors"
        tensors = {name: values.copy() for name, values in safetensors.numpy.load_file(path).items()}
        next(iter(tensors.values())).flat[0] += 1
        safetensors.numpy.save_file(tensors, self.folder / "ids.safetensors")
        return self.folder / "ids.safetensors"


class WaitingTest(TogetherMixin, TrainTest):
    def test_for_whom_a_process_waits_is_said(self):
        for early, words in [(0, "process 0 of 2 waits at 127.0.0.1:{} for process 1\n"),
                             (1, "process 1 of 2 waits for process 0 at 127.0.0.1:{}\n")]:
            output = self.folder / str(early)
            arguments = self.golden_arguments(output)
            places = places_of(2)
            first = self.start_one(arguments, places[early])
            self.assertEqual(first.stderr.readline(), "foxscope: " + words.format(places[0]["MASTER_PORT"]))
            second = self.start_one(arguments, places[1 - early])
            self.assertEqual([status for *_, status in self.ended([first, second])], [0, 0])
            self.expect_golden(output, "fox-pro")


class EvaluationsTest(NeighboursMixin, SameFileMixin, CommandLineTest):
    def setUp(self):
        super().setUp()
        self.texts = {"A": self.write("a.txt", "The hill was green, and nobody saw the fox. " * 100),
                      "B": self.write("b.txt", "Nobody had seen the river before the ship came. " * 100)}

    def arguments(self, kind, job, folder):
        output = self.folder / folder
        output.mkdir(exist_ok=True)
        return ["eval", kind, "--model", FOX, "--corpus", self.texts[job], "--length", 48, "--windows", 6, "-q", "--force",
                "-o", output / f"{job}.h5"]

    def test_steps_of_one_job_that_share_a_port(self):
        for kind in ["loss", "heads"]:
            for job in "AB":
                self.done(*self.arguments(kind, job, "alone"))
            for order in ORDERS[:2]:
                port = free_port()
                shutil.rmtree(self.folder / "beside", ignore_errors=True)
                done = self.expect_alone_or_refused(
                    self.both_ended({job: self.arguments(kind, job, "beside") for job in "AB"},
                                    {job: step_of_slurm(2, port, step=str("AB".index(job))) for job in "AB"}, order),
                    lambda job: self.expect_same(self.folder / "alone" / f"{job}.h5",
                                                 self.folder / "beside" / f"{job}.h5"))
                self.assertGreaterEqual(len(done), 1)

    def test_what_differs_is_named(self):
        for kind in ["loss", "heads"]:
            processes = [self.start_one(self.arguments(kind, job, "out"), place)
                         for job, place in zip("AB", places_of(2), strict=True)]
            (_, said, status), (_, other, other_status) = self.ended(processes)
            self.assertEqual((status, other_status, other), (1, 1, ""), said)
            self.assertRegex(said, r"process 1 of 2 does other work than process 0: [^\n]* instead of [^\n]*: start all")
            self.assertEqual(list((self.folder / "out").glob("*.h5")), [])


if __name__ == "__main__":
    unittest.main()
