"""`foxscope figure`: every kind from files to pages that other programs read back, and what is refused."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import h5py
import numpy
from support import DATA, DRAWS, FOX, CommandLineTest, png_size, read_png, set_config

RUN_KINDS = ["maps", "grid", "compare", "text"]
LOSS_KINDS = ["loss", "perplexity", "ablation"]


class FigureTest(CommandLineTest):
    """Files that many tests read are made once."""

    shared = tempfile.TemporaryDirectory(prefix="foxscope-cli-figure-")

    def setUp(self):
        super().setUp()
        self.output = self.folder / "figure.pdf"

    def made_once(self, name, make):
        path = pathlib.Path(self.shared.name) / name
        if not path.exists():
            make(path)
        return path

    def two_models(self):
        """A run file of a model with gates and one without, on the same tokens."""
        return self.made_once("run.h5", lambda path: self.done(
            "run", "--model", f"fox={DATA / 'fox-pro'}", "--model", f"base={DATA / 'transformer-pro'}", "--ids",
            self.ids_file(), "-o", path))

    def words(self, text="The fox ran over the hill.\nשלום fox, 狐狸 ran — naïve."):
        """A run file with a text."""
        return self.made_once("words.h5", lambda path: self.done("run", "--model", FOX, "--text",
                                                                 self.write("text.txt", text), "-o", path))

    def evaluation(self, name, windows=6, length=300, seed=1):
        """Losses of windows as an evaluation, 0.001 lower at each position than at the one before."""
        def make(path):
            losses = numpy.random.default_rng(seed).normal(3, 0.5, (windows, length)) - 0.001 * numpy.arange(length)
            archive = self.folder / f"{name}.npz"
            numpy.savez(archive, **{"val/loss_per_token": losses.astype(numpy.float32)})
            self.done("eval", "import", archive, "-o", path)
        return self.made_once(f"{name}.h5", make)

    def files_of(self, kind):
        if kind in RUN_KINDS:
            return [self.two_models()]
        return [self.evaluation("a"), self.evaluation("b", seed=2)]

    def draw(self, kind, *extra, files=None, output=None):
        output = output or self.output
        result = self.foxscope("figure", kind, *(files or self.files_of(kind)), "-o", output, "--force", *extra)
        self.assertEqual((result.returncode, result.stdout), (0, b""), result.stderr.decode())
        return result.stderr.decode()

    def refuses(self, words, kind, *arguments, code=2, output=None):
        output = output or self.folder / "refused.pdf"
        before = sorted(self.folder.iterdir())
        self.fails(code, words, "figure", kind, *arguments, "-o", output, output=output)
        self.assertEqual(sorted(self.folder.iterdir()), before, "something half-written was left")

    def text_of(self, path=None):
        return subprocess.run(["pdftotext", "-layout", path or self.output, "-"], capture_output=True, check=True,
                              text=True).stdout

    def info_of(self, path=None):
        return subprocess.run(["pdfinfo", path or self.output], capture_output=True, check=True, text=True).stdout


class HelpTest(FigureTest):
    def test_kinds_are_listed_and_have_help(self):
        text = self.done("figure", "--help")
        for kind in [*LOSS_KINDS, *RUN_KINDS, "training"]:
            self.assertRegex(text, rf"(?m)^  {kind} ")
        for kind in ["maps", "ablation"]:
            self.assertIn(f"foxscope figure {kind} ", self.done("figure", kind, "--help"))

    def test_an_unknown_kind_is_told_those_that_are(self):
        message = self.fails(2, "figure pie: there is no such kind", "figure", "pie", "x.h5", "-o", "x.pdf")
        for kind in LOSS_KINDS + RUN_KINDS:
            self.assertIn(kind, message)
        self.fails(2, ["figure", "which kind?", "maps"], "figure")


@unittest.skipUnless(DRAWS, "built without Qt")
class FileTest(FigureTest):
    def test_every_kind_gives_the_same_bytes_with_truetype_fonts_and_its_origin(self):
        for kind in LOSS_KINDS + RUN_KINDS:
            with self.subTest(kind):
                files = self.files_of(kind)
                self.draw(kind, files=files)
                first = self.output.read_bytes()
                self.draw(kind, files=files)
                self.assertEqual(self.output.read_bytes(), first)
                fonts = subprocess.run(["pdffonts", self.output], capture_output=True, check=True, text=True).stdout
                embedded = fonts.splitlines()[2:]
                self.assertTrue(embedded)
                for line in embedded:
                    self.assertRegex(line, r"CID TrueType +Identity-H +yes yes yes")
                info = self.info_of()
                self.assertIn(f"command: foxscope figure {kind} ", info)
                self.assertIn("model: ", info)
                self.assertNotIn("CreationDate", info)
                self.assertRegex(info, r"Page size: +396 x ")
                images = subprocess.run(["pdfimages", "-list", self.output], capture_output=True, check=True, text=True).stdout
                self.assertNotIn("jpeg", images)

    def test_svg_has_no_fonts_and_png_its_resolution(self):
        for kind in ["maps", "loss"]:
            files = self.files_of(kind)
            svg = self.folder / "figure.svg"
            self.draw(kind, "--width", "80mm", files=files, output=svg)
            root = xml.etree.ElementTree.parse(svg).getroot()
            self.assertEqual(root.get("width"), "80.0000mm")
            self.assertFalse([element for element in root.iter() if element.tag.endswith("}text")])
            if kind == "maps":
                self.assertIn("image-rendering:pixelated", svg.read_text())
            png = self.folder / "figure.png"
            self.draw(kind, "--width", "icml", "--dpi", "100", files=files, output=png)
            self.assertEqual(png_size(png)[0], 325)

    def test_nothing_touches_the_edge_of_the_page(self):
        png = self.folder / "figure.png"
        for kind in LOSS_KINDS + RUN_KINDS:
            with self.subTest(kind):
                self.draw(kind, "--dpi", "100", "--width", "half", "--font-size", "8", output=png)
                pixels, _ = read_png(png)
                for edge in [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]:
                    self.assertTrue((edge == 255).all())

    def test_sizes_of_venues_and_units(self):
        svg = self.folder / "figure.svg"
        for width, millimetres in [("neurips", 5.5 * 25.4), ("iclr", 5.5 * 25.4), ("half", 2.65 * 25.4),
                                   ("icml-wide", 6.75 * 25.4), ("acl", 77), ("acl-wide", 160), ("aaai", 3.3125 * 25.4),
                                   ("aaai-wide", 7 * 25.4), ("nature", 89), ("nature-wide", 183), ("4.5in", 4.5 * 25.4)]:
            with self.subTest(width):
                self.draw("loss", "--width", width, "--height", "60mm", output=svg)
                root = xml.etree.ElementTree.parse(svg).getroot()
                self.assertAlmostEqual(float(root.get("width").removesuffix("mm")), millimetres, places=3)
                self.assertEqual(root.get("height"), "60.0000mm")

    def test_style(self):
        self.draw("loss", "--title", "Losses of *A*", "--label", "a=FoX (*Pro*)", "--font", "DejaVu Serif", "--height", "2in")
        text = self.text_of()
        for words in ["Losses of A", "FoX (Pro)", "token position p"]:
            self.assertIn(words, text)
        self.assertNotIn("*", text)
        self.assertRegex(self.info_of(), r"Page size: +396 x 144 ")
        fonts = subprocess.run(["pdffonts", self.output], capture_output=True, check=True, text=True).stdout
        self.assertIn("DejaVuSerif", fonts)
        self.assertNotIn("DejaVuSans", fonts)

    def test_letters(self):
        self.draw("maps", "--heads", "0:0,1:1")
        self.assertRegex(self.text_of(), r"\(b\) Layer\s1, head\s1")
        self.draw("maps", "--heads", "0:0,1:1", "--no-letters")
        self.assertNotIn("(b)", self.text_of())
        self.draw("maps", "--heads", "1:1")
        self.assertNotIn("(a)", self.text_of())

    def test_no_display_is_needed(self):
        result = self.foxscope("figure", "maps", self.two_models(), "-o", self.output,
                               environment={"DISPLAY": "", "WAYLAND_DISPLAY": "", "QT_QPA_PLATFORM": "xcb"})
        self.assertEqual(result.returncode, 0, result.stderr.decode())


@unittest.skipUnless(DRAWS, "built without Qt")
class KindTest(FigureTest):
    def test_maps_choose_heads_whose_memory_is_seen_and_say_which(self):
        said = self.draw("maps")
        self.assertIn("this is fox", said)
        heads = re.findall(r"(\d):(\d) \(([\d.e+]+) tokens\)", said)
        table = json.loads(self.done("heads", self.two_models(), "--model", "fox", "--json"))["heads"]
        times = {(head["layer"], head["head"]): head["rate_decay_time"] for head in table}
        chosen = [times[int(layer), int(head)] for layer, head, _ in heads]
        self.assertEqual(len(chosen), 2)
        self.assertEqual(chosen, sorted(chosen))
        # Of 64 tokens the others would be a diagonal, and nothing else.
        self.assertEqual(chosen, sorted(times.values())[2:])
        text = self.text_of()
        for layer, head, _ in heads:
            self.assertRegex(text, rf"Layer\s{layer}, head\s{head}")
        # Asked for, there is nothing to say.
        self.assertEqual(self.draw("maps", "--model", "fox", "--heads", "0:0"), "")

    def test_maps_without_a_gate_leave_f_out(self):
        said = self.draw("maps", "--model", "base")
        self.assertIn("F is 1 everywhere", said)
        self.assertNotIn("retained", self.text_of())

    def test_maps_of_heads_of_several_models(self):
        """Each says whose it is, unless it is the chosen model's."""
        run = self.folder / "run.h5"
        self.done("run", "--model", f"fox={DATA / 'fox-pro'}", "--model", f"base={DATA / 'transformer-pro'}", "--model",
                  f"delta={DATA / 'gated-deltanet'}", "--ids", self.ids_file(), "-o", run)
        said = self.draw("maps", "--heads", "fox:0:1,delta:1:0,base:1:1", "--label", "fox=FoX", files=[run])
        self.assertEqual(said, "")
        text = re.sub(r"\s+", " ", self.text_of())
        for words in ["(a) FoX", "(b) delta", "(c) base", "layer 0, head 1", "layer 1, head 0", "layer 1, head 1", "retained"]:
            self.assertIn(words, text)
        self.assertIn("this is fox", self.draw("maps", "--heads", "0:1,base:1:1", files=[run]))
        self.assertEqual(self.draw("maps", "--model", "base", "--heads", "1:1,delta:0:0", files=[run]), "")
        # Of one model the name stands nowhere; none with a gate has no F.
        self.draw("maps", "--heads", "fox:0:1,fox:1:1", files=[run])
        self.assertRegex(self.text_of(), r"\(b\) Layer\s1, head\s1")
        self.assertIn("F is 1 everywhere", self.draw("maps", "--heads", "base:0:0,base:1:1", files=[run]))

    def test_maps_by_distance(self):
        said = self.draw("maps", "--axes", "distance")
        self.assertNotIn("are shown, in which", said)
        text = re.sub(r"\s+", " ", self.text_of())
        self.assertIn("distance", text)
        self.assertIn("query", text)
        self.assertNotIn("key", text)
        # Heads that forget within 2 % of the text take it by themselves.
        self.draw("maps", "--axes", "auto", "--heads", "0:0")
        self.assertIn("key", self.text_of())
        self.fails(2, ["--cols", "maps by distance"], "figure", "maps", self.two_models(), "--axes", "distance", "--cols",
                   "0:4", "-o", self.folder / "other.pdf")
        self.fails(2, ["axes", "key, distance"], "figure", "maps", self.two_models(), "--axes", "time", "-o",
                   self.folder / "other.pdf")

    def test_maps_name_tokens_of_a_small_region(self):
        run = self.words()
        self.draw("maps", "--heads", "0:0", "--rows", "0:6", "--cols", "0:6", files=[run])
        words = self.text_of()
        self.assertIn("⟨BOS⟩", words)
        self.assertIn("The", words)

    def test_compare_offers_the_nearest_head(self):
        said = self.draw("compare")
        self.assertRegex(said, r"fox: \d:\d has the longest memory.*\n.*base: \d:\d is nearest to it by distance profile, [\d.e-]+ octaves apart")
        text = self.text_of()
        for words in ["(a) fox", "(b) base", "(c) (a) − (b)"]:
            self.assertIn(words, text)
        self.assertEqual(self.draw("compare", "--models", "base,fox", "--head", "0:0", "--with", "1:1"), "")
        self.assertRegex(self.text_of(), r"layer\s0, head\s0 +layer\s1, head\s1")

    def test_text_is_the_passage(self):
        run = self.words()
        for tint in ["loss", "gate", "forget", "attention"]:
            with self.subTest(tint):
                self.draw("text", "--tint", tint, files=[run])
                self.assertIn("The fox ran over the hill.", self.text_of())
        self.assertIn("naïve", self.text_of())
        self.assertIn("狐", self.text_of())
        hybrid = self.run_fixture("published/olmo_hybrid", "hybrid.h5")
        for tint in ["gate", "forget"]:
            self.refuses(["head 1:2 of olmo_hybrid has no gate", "--tint loss or attention", "of the layers 0,"], "text", hybrid,
                         "--tint", tint, "--head", "1:2")
        said = self.draw("text", "--tint", "attention", "--head", "0:0", files=[run])
        self.assertRegex(said, r"from position \d+, which reads “.*”; --position chooses another")

    def test_saliency(self):
        run = self.made_once("saliency.h5", lambda path: self.done(
            "run", "--model", FOX, "--text", self.write("text.txt", "The fox ran over the hill.\nNobody saw the fox."),
            "--keep", "gates,saliency", "--saliency", "8:9", "-o", path))
        said = self.draw("saliency", files=[run])
        self.assertRegex(said, r"\d:\d has the largest saliency_absolute; --head chooses another")
        self.assertIn("change of the loss of position 8 per nat of log f", self.text_of())
        self.assertIn("saliency_absolute", self.text_of())
        self.assertIn("The fox ran over the hill.", self.text_of())
        # Behind the target no gate matters.
        self.assertNotIn("Nobody saw", self.text_of())
        said = self.draw("saliency", "--head", "3:1", "--rows", "0:12", files=[run])
        self.assertNotIn("chooses another", said)
        # Of twelve values the largest is beyond the colours.
        self.assertRegex(said, r"colours from .* to .*, values from .* to ")
        self.assertIn("g of 3:1: change of the loss", self.text_of())
        for number in ["saliency_scale", "saliency_absolute", "saliency_per_nat"]:
            self.assertIn("has the largest " + number, self.draw("saliency", "--by", number, files=[run]))
            self.assertIn(number, self.text_of())
        self.refuses(["--by mean", "saliency_scale, saliency_absolute or saliency_per_nat"], "saliency", run, "--by", "mean")
        bare = self.made_once("bare.h5", lambda path: self.done(
            "run", "--model", FOX, "--text", self.write("bare.txt", "The fox ran."), "--keep", "saliency", "-o", path))
        self.assertIn("has the largest saliency_per_nat", self.draw("saliency", files=[bare]))
        self.refuses(["gates were not kept, and saliency_scale is of them", "--keep loss,gates,saliency"], "saliency", bare,
                     "--by", "saliency_scale", code=1)
        self.refuses(["--rows 9:3"], "saliency", run, "--rows", "9:3")
        self.refuses(["no layer 8", "0 to 7"], "saliency", run, "--head", "8:0")
        self.refuses(["saliency was not kept", "--keep loss,gates,saliency"], "saliency", self.two_models(), code=1)

    def test_losses_of_a_short_run_have_no_bands_and_say_so(self):
        said = self.draw("loss", files=[self.two_models()])
        self.assertRegex(said, r"one text of \d+ tokens: too short for an error, so there are no bands")
        for words in ["fox", "base"]:
            self.assertIn(words, self.text_of())

    def test_losses_of_one_window_say_whether_they_have_bands(self):
        files = [self.evaluation("one", windows=1), self.evaluation("two", windows=1, seed=2)]
        for kind in LOSS_KINDS:
            with self.subTest(kind):
                said = "bands are ± 1 standard error over blocks" if kind == "perplexity" else "too short for an error"
                self.assertIn(said, self.draw(kind, files=files))
                self.assertNotIn("no error", self.draw(kind))

    def test_curves_take_order_colours_ticks_and_limits(self):
        def colours(*options):
            png = self.folder / "figure.png"
            self.draw("loss", "--smooth", "51", "--dpi", "60", "--line-width", "3", *options, output=png)
            pixels, _ = read_png(png)
            return {tuple(colour) for colour in numpy.unique(pixels.reshape(-1, 3), axis=0)}
        self.assertNotIn((1, 200, 3), colours())
        self.assertIn((1, 200, 3), colours("--colour", "b=#01c803"))
        # Numbers of the palette, by default those of their places.
        self.assertEqual(colours("--look", "a=0", "--look", "b=1"), colours())
        self.assertNotEqual(colours("--look", "a=4"), colours())
        self.assertNotEqual(colours("--look", "a=0:1"), colours())
        self.draw("loss", "--legend", "b,a", "--x-ticks", "7,222", "--y-limits", "2:4", "--y-ticks", "2.5,3.5")
        text = self.text_of()
        for words in ["222", "2.5", "3.5"]:
            self.assertIn(words, text)
        self.assertLess(re.search(r"\bb\b", text).start(), re.search(r"\ba\b", text).start())

    def test_the_legend_stands_where_it_is_asked_for_and_models_are_chosen(self):
        pages = {}
        for place in ["auto", "above", "none"]:
            self.draw("loss", "--legend-at", place)
            pages[place] = self.output.read_bytes()
            self.assertEqual("mean of" in self.text_of(), place != "none")
        self.assertEqual(len(set(pages.values())), 3)
        for kind in LOSS_KINDS:
            if kind == "ablation":
                continue
            self.draw(kind, "--models", "b")
            self.assertIsNone(re.search(r"\ba\b", self.text_of()))
        self.draw("ablation", "--models", "b,a")
        self.assertRegex(self.text_of(), r"b\s*−\s*a")
        run = self.words()
        self.draw("distance", "--legend-at", "none", files=[run])
        self.assertNotIn("with the gate", self.text_of())
        self.draw("decay", "--models", "fox-pro-12m", "--legend-at", "none", files=[run])

    def test_colour_bars_have_the_limits_that_were_chosen(self):
        run = self.two_models()
        for kind in ["maps", "compare"]:
            self.draw(kind, "--quantity", "attention", "--limits", "attention=0.001:0.5", files=[run])
            self.assertIn("from 0.001 to 0.5", self.info_of())
        self.draw("maps", "--limits", "forget=:0.5", files=[run])
        self.assertIn("linear from 0 to 0.5", self.info_of())
        self.draw("grid", "--quantity", "log_forget", "--limits", "log_forget=-20:", files=[run])
        self.assertIn("linear from -20 to", self.info_of())
        for words, options in [(["--limits forget", "--quantity forget"], ["--quantity", "attention", "--limits", "forget=0:1"]),
                               (["--limits 1", "NAME="], ["--limits", "1"]),
                               (["--limits 1", "write A:B, A: or :B"], ["--limits", "forget=1"]),
                               (["--limits a:b", "write A:B, A: or :B"], ["--limits", "forget=a:b"]),
                               (["novel", "attention"], ["--limits", "novel=0:1"]),
                               (["lower must be below the upper"], ["--limits", "forget=1:0"])]:
            with self.subTest(options):
                self.refuses(words, "maps", run, *options)
        self.refuses(["--limits log_forget", "--quantity log_forget"], "grid", run, "--limits", "log_forget=-2:0")

    def test_a_training_length_is_drawn_where_it_is_given(self):
        self.draw("loss")
        self.assertNotIn("training length", self.text_of())
        self.draw("loss", "--train-length", "200")
        self.assertIn("training length", self.text_of())

    def test_ablation_subtracts_the_base(self):
        said = self.draw("ablation")
        self.assertIn("the base is a", said)
        self.assertIn("a−b", self.text_of().replace(" ", ""))  # pdftotext drops the narrow spaces
        said = self.draw("ablation", "--base", "b")
        self.assertNotIn("the base", said)
        self.assertIn("b−a", self.text_of().replace(" ", ""))

    def test_models_of_one_name_are_told_apart_by_their_files(self):
        first = self.evaluation("same")
        (self.folder / "old.h5").write_bytes(first.read_bytes())
        self.draw("loss", files=[first, self.folder / "old.h5"])
        for words in ["same", "old"]:
            self.assertIn(words, self.text_of())


class UsageTest(FigureTest):
    def setUp(self):
        super().setUp()
        if not DRAWS:
            self.skipTest("built without Qt")

    def test_heads_models_and_positions_that_do_not_exist(self):
        run = self.two_models()
        self.refuses("layer", "maps", run, "--heads", "9:0")
        self.refuses("head", "maps", run, "--heads", "0:9")
        self.refuses(["--heads 3", "LAYER:HEAD"], "maps", run, "--heads", "3")
        self.refuses(["--heads x:0", "LAYER:HEAD"], "maps", run, "--heads", "fox:x:0")
        self.refuses(["--heads other", "fox", "base"], "maps", run, "--heads", "other:0:0")
        self.refuses("head", "maps", run, "--heads", "0:0,base:0:9")
        self.refuses(["--model other", "fox", "base"], "maps", run, "--model", "other")
        self.refuses(["--rows 9:3"], "maps", run, "--rows", "9:3")
        self.refuses(["position 99", "0 to 63"], "text", run, "--tint", "forget", "--position", "99")
        self.refuses(["--tint red", "attention"], "text", run, "--tint", "red")
        self.refuses(["--quantity", "twice"], "maps", run, "--quantity", "forget,forget")
        self.refuses(["a grid shows one"], "grid", run, "--quantity", "forget,attention")
        self.refuses(["--colours rainbow", "viridis"], "maps", run, "--colours", "rainbow")
        self.refuses(["--models fox", "two names"], "compare", run, "--models", "fox")
        self.refuses(["--models nobody", "fox"], "compare", run, "--models", "fox,nobody")

    def test_files_that_do_not_fit(self):
        run = self.two_models()
        self.refuses("none.h5", "maps", self.folder / "none.h5", code=1)
        self.refuses(["eval", "holds losses of windows"], "maps", self.evaluation("a"), code=1)
        self.refuses(["--tint mass"], "needle", run, "--head", "0:0")
        self.refuses(["--tint red", "gain"], "needle", run, "--tint", "red")
        self.refuses("run.h5", "needle", run, code=1)
        self.refuses("twice.h5", "maps", run, self.copy(run, "twice.h5"))
        alone = self.folder / "alone.h5"
        self.done("run", "--model", f"other={DATA / 'fox-pro'}", "--ids", self.ids_file(length=40, name="short.json"), "-o", alone)
        self.refuses(["comparing takes two models", "other"], "compare", alone)
        self.refuses(["did not read the same tokens"], "compare", run, alone, "--models", "fox,other")
        self.refuses(["other is alone"], "ablation", alone)
        self.refuses(["64 tokens", "40", "--length"], "loss", run, alone)

    def test_runs_behind_other_bos(self):
        run = self.folder / "bos.h5"
        other = self.copy_of("transformer-pro")
        set_config(other, bos_token_id=2)
        ids = self.write("ids.json", json.dumps(list(range(3, 43))))
        self.done("run", "--model", f"fox={DATA / 'fox-pro'}", "--model", f"base={other}", "--ids", ids, "-o", run)
        with h5py.File(run) as file:
            first = [int(file[f"models/{name}/tokens/input_id"][0]) for name in ["fox", "base"]]
        self.assertEqual(first[1], 2)
        note = (f"fox and base read the same from position 1 on, behind BOS {first[0]} and 2: run both with --bos for one "
                "that they share")
        self.assertEqual(self.draw("maps", "--heads", "fox:0:0,base:0:0,base:0:1", files=[run]).count(note), 1)
        for kind in ["compare", "comparison"]:
            self.assertIn(note, self.draw(kind, files=[run]))
        with h5py.File(run, "r+") as file:
            file["models/base/tokens/input_id"][7] += 1
        self.refuses(["fox and base did not read the same tokens: run both on one text"], "maps", run, "--heads",
                     "fox:0:0,base:0:0")

    def copy(self, path, name):
        (self.folder / name).write_bytes(path.read_bytes())
        return self.folder / name

    def test_losses_of_other_tokens(self):
        ids = json.loads(self.ids_file().read_text())
        ids["labels"].reverse()
        other = self.folder / "other.h5"
        self.done("run", "--model", f"other={DATA / 'fox-pro'}", "--ids", self.write("other.json", json.dumps(ids)), "-o",
                  other)
        self.refuses(["did not predict the same tokens"], "loss", self.two_models(), other)
        long = self.evaluation("long", length=400)
        self.refuses(["300 tokens", "400", "--length"], "loss", self.evaluation("a"), long)

    def ids_evaluation(self, name, rows):
        """Losses of windows of token ids."""
        numpy.save(self.folder / f"{name}.npy", numpy.array(rows))
        path = self.folder / f"{name}.h5"
        self.done("eval", "loss", "--model", f"{name}={DATA / 'fox-pro'}", "--bos", "0", "--ids",
                  self.folder / f"{name}.npy", "-o", path)
        return path

    def test_evaluations_of_other_tokens_and_damaged_ones(self):
        rows = numpy.arange(20).reshape(2, 10)
        first = self.ids_evaluation("first", rows)
        for kind in LOSS_KINDS:
            self.refuses(["first and second did not predict the same tokens", "another tokenizer"], kind, first,
                         self.ids_evaluation("second", rows + 1) if kind == "loss" else self.folder / "second.h5")
        with h5py.File(first, "r+") as file:
            file["models/first/loss/per_token_loss"][1, 3] = numpy.nan
        self.refuses(["first.h5", "window 1 at position 3 is nan"], "loss", first, code=1)

    def test_parts_that_were_not_kept(self):
        run = self.run_fixture(extra=["--keep", "loss"])
        self.refuses("--keep", "maps", run, code=1)
        self.refuses("--keep", "grid", run, code=1)
        run = self.run_fixture(name="gates.h5", extra=["--keep", "gates"])
        self.refuses("--keep", "maps", run, "--heads", "0:0", code=1)
        self.refuses(["losses were not kept"], "loss", run, code=1)
        self.refuses(["losses were not kept"], "text", run, code=1)
        self.draw("maps", "--heads", "0:0", "--quantity", "forget", files=[run])

    def test_curve_options(self):
        files = self.files_of("loss")
        for extra, words in [(["--smooth", "100"], ["--smooth 100", "odd"]),
                             (["--x-limits", "5"], ["--x-limits 5", "A:B"]),
                             (["--y-limits", "4:2"], "the lower must be below the upper"),
                             (["--legend", "c"], ["--legend c", "a, b"]),
                             (["--legend-at", "left"], ["--legend-at left", "auto, above or none"]),
                             (["--models", "a,c"], ["--models c", "the files have a, b"]),
                             (["--label", "c=C"], ["--label c", "a, b"]),
                             (["--label", "C"], ["--label C", "NAME="]),
                             (["--colour", "c=#ffffff"], ["--colours c", "a, b"]),
                             (["--colour", "a=red"], "#RRGGBB"),
                             (["--look", "a"], ["--look a", "NAME="]),
                             (["--look", "a=red"], ["--look a=red", "whole numbers"]),
                             (["--look", "a=0:-1"], ["--look a=0:-1", "whole numbers"]),
                             (["--look", "c=1"], ["--look c", "a, b"]),
                             (["--train-length", "-3"], "--train-length"),
                             (["--line-width", "0"], "line width 0 pt")]:
            with self.subTest(extra):
                self.refuses(words, "loss", *files, *extra)
        self.refuses(["--base c", "a, b"], "ablation", *files, "--base", "c")

    def test_a_misspelt_name_is_answered_with_the_nearest(self):
        run = self.two_models()
        losses = self.folder / "losses.h5"
        self.done("run", "--model", f"fox={FOX}", "--text", self.write("text.txt", "A fox. " * 30), "-o", losses)
        for kind, *extra in [("maps", "--label", "fxo=FoX"), ("maps", "--model", "fxo"), ("maps", "--heads", "fxo:0:0"),
                             ("compare", "--models", "fxo,base"), ("decay", "--label", "fxo=FoX"),
                             ("decay", "--models", "fxo"), ("distance", "--model", "fxo"), ("text", "--label", "fxo=FoX")]:
            with self.subTest([kind, *extra]):
                self.refuses([extra[0] + " fxo", "fox, base: did you mean fox?"], kind, run, *extra)
        for extra in [["--label", "fxo=FoX"], ["--colours", "fxo=#102030"], ["--look", "fxo=1"], ["--legend", "fxo"],
                      ["--models", "fxo"]]:
            self.refuses([f"{extra[0]} fxo", " fox: did you mean fox?"], "loss", losses, *extra)
        self.refuses(["--label other: the figure has fox, base"], "maps", run, "--label", "other=X")
        self.fails(2, "the file holds no model 'fxo': it holds fox, base: did you mean fox?", "map", run, "--model", "fxo",
                   "--head", "0:0", "--quantity", "forget", "-o", self.folder / "x.npy")

    def test_sizes_and_outputs(self):
        run = self.two_models()
        # Sizes that no figure can have are those of `foxscope map`.
        for extra, words in [(["--width", "10000mm"], "at most 1000 mm"), (["--width", "0mm"], "width 0 mm"),
                             (["--height", "10m"], ["--height 10m", "140mm or 5.5in"]),
                             (["--width", "neurpis"], ["neurips", "icml"]),
                             (["--height", "1mm"], ["height 1 mm", "use at least"]),
                             (["--width", "20mm"], ["width 20 mm", "use at least"]),
                             (["--font", "No Such Family"], ["No Such Family", "fc-list"])]:
            with self.subTest(extra):
                self.refuses(words, "maps", run, "--heads", "0:0,0:1,1:0", *extra)
        self.refuses(["figure.txt", ".pdf, .svg, .png or .csv"], "maps", run, output=self.folder / "figure.txt")
        self.refuses("missing", "maps", run, output=self.folder / "missing" / "figure.pdf", code=1)
        old = self.write("old.pdf", "old")
        self.fails(1, ["old.pdf", "--force"], "figure", "maps", run, "-o", old)
        self.fails(2, "choose auto, cpu, cuda or cuda:N", "figure", "maps", run, "--device", "gpu", "-o", self.folder / "d.pdf")
        self.fails(1, ["--device cuda", "CUDA", "use --device cpu"], "figure", "decay", run, "--device", "cuda", "-o",
                   self.folder / "d.pdf")
        self.assertEqual(old.read_text(), "old")
        link = self.folder / "run.pdf"
        link.symlink_to(run)
        self.fails(2, "being read", "figure", "maps", run, "--force", "-o", link)


@unittest.skipIf(DRAWS, "built with Qt")
class NoPictureTest(FigureTest):
    def test_a_build_without_qt_says_so(self):
        for kind in LOSS_KINDS + RUN_KINDS:
            self.refuses(["no Qt", "FOXSCOPE_GUI=ON"], kind, self.two_models(), code=1)


if __name__ == "__main__":
    unittest.main()
