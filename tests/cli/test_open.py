"""`foxscope open`: what it refuses, and the picture of the window that it writes without a display."""

import json
import os
import shutil
import subprocess
import time
import unittest

from support import DRAWS, FOX, NO_DISPLAY, PROGRAM, SOURCE, CommandLineTest, png_size, read_png


@unittest.skipUnless(DRAWS, "a build without a window")
class OpenTest(CommandLineTest):
    def run_file(self):
        text = self.write("text.txt", b"The fox ran over the hill, and nobody saw the fox.\n" * 8)
        path = self.folder / "run.h5"
        self.done("run", "-q", "--model", FOX, "--text", text, "-o", path)
        return path

    def test_without_a_display(self):
        self.fails(2, ["display", "--screenshot"], "open", environment=NO_DISPLAY)

    def test_options(self):
        for option, value, words in [("--size", "10x10", "320"), ("--size", "wide", "WxH"), ("--size", "800x600x3", "WxH"),
                                     ("--scale", "9", "0.5 to 4"), ("--scale", "nan", "0.5 to 4"),
                                     ("--theme", "blue", "light or dark")]:
            with self.subTest(f"{option} {value}"):
                picture = self.folder / "window.png"
                self.fails(2, [option, words], "open", "--screenshot", picture, option, value, environment=NO_DISPLAY,
                           output=picture)

    def test_a_picture_replaces_nothing_that_is_no_picture(self):
        run = self.folder / "run.png"  # what a file is stands in it, not in its name
        self.run_file().rename(run)
        before = run.read_bytes()
        self.fails(2, "this file is being read", "open", run, "--screenshot", run, environment=NO_DISPLAY)
        self.assertEqual(run.read_bytes(), before)
        notes = self.write("notes.txt", b"mine")
        self.fails(2, ["notes.txt: it is a PNG", ".png"], "open", run, "--screenshot", notes, environment=NO_DISPLAY)
        self.assertEqual(notes.read_bytes(), b"mine")

    def test_a_picture_of_a_run_file(self):
        run = self.run_file()
        for theme in ["light", "dark"]:
            picture = self.folder / f"{theme}.png"
            self.done("open", run, "--screenshot", picture, "--size", "1400x900", "--theme", theme, environment=NO_DISPLAY)
            self.assertEqual(png_size(picture), (1400, 900))
        light, dark = ((self.folder / f"{theme}.png").read_bytes() for theme in ["light", "dark"])
        self.assertNotEqual(light, dark)

    def test_the_word_open_may_be_left_out(self):
        run = self.run_file()
        picture = self.folder / "window.png"
        self.done(run, "--screenshot", picture, "--size", "1400x900", environment=NO_DISPLAY)
        self.assertEqual(png_size(picture), (1400, 900))
        first = self.folder / "first.png"
        self.done("--size", "1300x800", "--screenshot", first, run, environment=NO_DISPLAY)
        self.assertEqual(png_size(first), (1300, 800))

    @staticmethod
    def largest(picture):
        """Pixels in the colour of F = 1, which a map has on its diagonal and a scaled picture of one has not."""
        pixels, _ = read_png(picture)
        return int((pixels == [253, 231, 37]).all(axis=-1).sum())

    def test_a_model_and_a_text_are_run(self):
        text = self.write("text.txt", b"The fox ran over the hill.\n" * 4)
        other = self.write("other.txt", b"Nobody saw the fox that night.\n" * 4)
        only = self.folder / "only.png"
        self.done("open", FOX, "--screenshot", only, "--size", "1400x900", environment=NO_DISPLAY)
        self.assertEqual(self.largest(only), 0)
        pictures = set()
        for number, read in enumerate([text, other]):
            picture = self.folder / f"{number}.png"
            self.done(FOX, read, "--screenshot", picture, "--size", "1400x900", environment=NO_DISPLAY)
            self.assertGreater(self.largest(picture), 500)
            pictures.add(picture.read_bytes())
        self.assertEqual(len(pictures), 2)

    def test_a_scaled_picture_has_more_dots(self):
        picture = self.folder / "window.png"
        self.done("open", "--screenshot", picture, "--size", "1400x900", "--scale", "2", environment=NO_DISPLAY)
        self.assertEqual(png_size(picture), (2800, 1800))

    def test_a_session_that_runs_its_models(self):
        session = self.write("session.json", json.dumps({
            "foxscope_session": 1, "models": [{"name": "fox", "path": str(FOX)}],
            "text": {"content": "The fox ran. " * 20}, "settings": {"limit": 32}}).encode())
        picture = self.folder / "window.png"
        self.done("open", session, "--screenshot", picture, environment=NO_DISPLAY)
        self.assertTrue(picture.exists())

    def test_a_killed_window_leaves_its_work(self):
        model = self.folder / "model"
        shutil.copytree(FOX, model)
        text = self.write("text.txt", b"The fox ran over the hill.\n" * 8)
        state = self.folder / "state"
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "XDG_STATE_HOME": str(state),
                       "XDG_CONFIG_HOME": str(self.folder / "config")}
        window = subprocess.Popen([PROGRAM, "open", str(model), str(text)], env=environment)
        kept = []
        try:
            for _ in range(600):
                sessions = list(state.glob("foxscope/windows/*/session.json"))
                runs = json.loads(sessions[0].read_text())["runs"] if sessions else []
                kept = [run["kept"]["file"] for run in runs if "kept" in run]
                if kept:
                    break
                self.assertIsNone(window.poll())
                time.sleep(0.1)
        finally:
            window.kill()
            window.wait()
        self.assertEqual(len(kept), 1)
        self.assertTrue((sessions[0].parent / kept[0]).exists())
        # Without the model nothing can be computed, and the maps are there.
        shutil.rmtree(model)
        first, picture = (self.folder / name for name in ["first.png", "window.png"])
        self.done("open", "--screenshot", first, "--size", "1400x900", environment=NO_DISPLAY)
        self.done("open", sessions[0], "--screenshot", picture, "--size", "1400x900", environment=NO_DISPLAY)
        self.assertNotEqual(first.read_bytes(), picture.read_bytes())
        opened = self.folder / "run.png"
        self.done("open", sessions[0].parent / kept[0], "--screenshot", opened, "--size", "1400x900", environment=NO_DISPLAY)
        self.assertEqual(png_size(picture), png_size(opened))

    def test_paths_that_cannot_be_opened(self):
        picture = self.folder / "window.png"
        for path, words in [(self.folder / "missing.h5", "no such file"), (self.folder, "config.json"),
                            (self.write("bad.txt", b"abc\xff"), "UTF-8"),
                            (self.write("new.json", b'{"foxscope_session": 99}'), "newer version"),
                            (self.write("cut.h5", b"\x89HDF\r\n\x1a\n"), "cut.h5")]:
            with self.subTest(str(path)):
                self.fails(1, words, "open", path, "--screenshot", picture, environment=NO_DISPLAY, output=picture)

    def test_a_picture_that_cannot_be_written(self):
        self.fails(1, "nowhere", "open", "--screenshot", self.folder / "nowhere" / "window.png", environment=NO_DISPLAY)

    def test_the_demo_is_there(self):
        demo = json.loads((SOURCE / "resources" / "demo.json").read_text())
        for model in demo["models"]:
            self.assertTrue((SOURCE / "resources" / model["path"] / "config.json").exists())
        self.assertTrue((SOURCE / "resources" / demo["text"]["file"]).exists())


if __name__ == "__main__":
    unittest.main()
