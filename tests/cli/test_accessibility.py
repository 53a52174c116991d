"""What a screen reader is told: a client of AT-SPI asks the running window for its tables, as Orca does."""

import json
import os
import shutil
import subprocess
import unittest

from support import DRAWS, FOX, PROGRAM, SOURCE, CommandLineTest

# Debian's own Python has the bindings; that of the tests has not.
SYSTEM_PYTHON = "/usr/bin/python3"
CLIENT = SOURCE / "tests/cli/accessibility_client.py"


def missing():
    """What is missing for such a client, in words; nothing where all is there."""
    for program in ["xvfb-run", "openbox", "dbus-run-session", SYSTEM_PYTHON]:
        if shutil.which(program) is None:
            return f"without {program}"
    probe = "import gi; gi.require_version('Atspi', '2.0'); from gi.repository import Atspi"
    if subprocess.run([SYSTEM_PYTHON, "-c", probe], capture_output=True, timeout=60).returncode != 0:
        return "without gir1.2-atspi-2.0"
    return ""


MISSING = missing() if DRAWS else "a build without a window"


@unittest.skipIf(MISSING, MISSING)
class AccessibilityTest(CommandLineTest):
    def ask(self, *arguments):
        """What the client reads of a window that opens these paths."""
        environment = dict(os.environ, QT_LINUX_ACCESSIBILITY_ALWAYS_ON="1", QT_QPA_PLATFORM="xcb", NO_AT_BRIDGE="0",
                           XDG_CONFIG_HOME=str(self.folder / "config"), XDG_STATE_HOME=str(self.folder / "state"),
                           XDG_CACHE_HOME=str(self.folder / "cache"), XDG_RUNTIME_DIR=str(self.folder))
        self.folder.chmod(0o700)
        command = ["xvfb-run", "-a", "-s", "-screen 0 1600x1000x24", "dbus-run-session", "--", SYSTEM_PYTHON, CLIENT,
                   PROGRAM, *arguments]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout.splitlines()[-1])  # xvfb-run puts errors before it

    def test_heads_and_the_row_at_the_pin_are_read(self):
        text = self.write("text.txt", b"The fox ran over the hill, and nobody saw the fox.\n" * 4)
        run = self.folder / "run.h5"
        self.done("run", "-q", "--model", FOX, "--text", text, "-o", run)
        heads = json.loads(self.done("heads", run, "--json"))
        wanted = next(head for head in heads["heads"] if (head["layer"], head["head"]) == (7, 2))
        said = self.ask(run)
        self.assertEqual(said["heads"]["rows"], 8)
        self.assertEqual(said["heads"]["columns"], 4)
        self.assertTrue(said["heads"]["cell"].startswith("layer 7, head 2, decay time "), said["heads"]["cell"])
        self.assertTrue(said["heads"]["cell"].endswith(" tokens"), said["heads"]["cell"])
        number = float(said["heads"]["cell"].split()[-2])
        self.assertAlmostEqual(number / wanted["rate_decay_time"], 1, delta=0.01)
        # The keyboard goes to the grid, an arrow key chooses another head, and that one is read out.
        self.assertTrue(said["focused"].startswith("layer "), said["focused"])
        self.assertIn("decay time", said["focused"])


if __name__ == "__main__":
    unittest.main()
