"""`foxscope map`: numbers against the authors' attention and against each other, pictures by their pixels."""

import csv
import re
import subprocess
import unittest
import xml.etree.ElementTree

import h5py
import numpy
import tokenizers
from support import DATA, DRAWS, FOX, CommandLineTest, golden, read_png, through_terminal

LENGTH = 64


class MapTest(CommandLineTest):
    @classmethod
    def setUpClass(cls):
        cls.golden = golden("fox-pro")

    def setUp(self):
        super().setUp()
        self.run_file = self.run_fixture()

    def map(self, quantity, ending="npy", extra=(), layer=1, head=0):
        path = self.folder / f"map.{ending}"
        said = self.done("map", self.run_file, "--layer", layer, "--head", head, "--quantity", quantity, "--force", "-o",
                         path, *extra)
        self.assertEqual(said, "")
        return path

    def gates(self):
        return numpy.cumsum(self.golden["layers.1.log_fgate"][0, 0].astype(numpy.float64))


class NumbersTest(MapTest):
    def test_attention_is_that_of_the_authors_and_absent_above_the_diagonal(self):
        value = numpy.load(self.map("attention"))
        self.assertEqual((value.shape, value.dtype), ((LENGTH, LENGTH), numpy.float32))
        below = numpy.tri(LENGTH, dtype=bool)
        self.assertTrue(numpy.isnan(value[~below]).all())
        expected = self.golden["layers.1.attention"][0, 0]
        self.assertLess(numpy.abs(value[below] - expected[below]).max(), 1e-5)

    def test_forget_is_the_product_of_gates(self):
        c = self.gates()
        expected = numpy.exp(c[:, None] - c[None, :])
        value = numpy.load(self.map("forget"))
        below = numpy.tri(LENGTH, dtype=bool)
        self.assertLess(numpy.abs(value[below] - expected[below]).max(), 1e-4)
        logs = numpy.load(self.map("log_forget"))
        self.assertTrue(numpy.allclose(numpy.exp(logs[below]), value[below], atol=1e-6))

    def test_gate_effect_is_a_difference_of_two_softmaxes(self):
        below = numpy.tri(LENGTH, dtype=bool)
        logits = numpy.where(below, numpy.load(self.map("logits")).astype(numpy.float64), -numpy.inf)
        ungated = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        ungated /= ungated.sum(axis=1, keepdims=True)
        without = numpy.load(self.map("attention_without_gate"))
        self.assertLess(numpy.abs(without - ungated)[below].max(), 1e-5)
        effect = numpy.load(self.map("gate_effect"))
        self.assertLess(numpy.abs(effect - (numpy.load(self.map("attention")) - without))[below].max(), 1e-6)

    def test_without_the_first_key(self):
        whole = numpy.nan_to_num(numpy.load(self.map("attention")))
        left = numpy.load(self.map("attention", extra=["--without-first"]))
        self.assertTrue(numpy.isnan(left[:, 0]).all())
        rows = whole[1:, 1:] / whole[1:, 1:].sum(axis=1, keepdims=True)
        numpy.testing.assert_allclose(numpy.nan_to_num(left[1:, 1:]), rows, atol=1e-5)
        self.fails(2, ["key 0", "forget"], "map", self.run_file, "--layer", 0, "--head", 0, "--quantity", "forget",
                   "--without-first", "-o", self.folder / "f.npy")

    def test_rows_columns_and_sizes(self):
        whole = numpy.load(self.map("attention"))
        part = numpy.load(self.map("attention", extra=["--rows", "17:51", "--cols", "5:40"]))
        self.assertTrue(numpy.array_equal(part, whole[17:51, 5:40], equal_nan=True))
        self.assertTrue(numpy.array_equal(numpy.load(self.map("attention", extra=["--rows", "50:", "--cols", ":9"])),
                                          whole[50:, :9], equal_nan=True))
        pooled = numpy.load(self.map("attention", extra=["--rows", "17:51", "--cols", "5:40", "--size", "7x5"]))
        self.assertEqual(pooled.shape, (7, 5))
        for row in range(7):
            for column in range(5):
                bin_ = part[row * 34 // 7:(row + 1) * 34 // 7, column * 35 // 5:(column + 1) * 35 // 5]
                expected = numpy.nan if numpy.isnan(bin_).all() else numpy.nanmax(bin_)
                numpy.testing.assert_allclose(pooled[row, column], expected, rtol=1e-6)
        smallest = numpy.load(self.map("attention", extra=["--size", "1x1", "--reduce", "min"]))
        numpy.testing.assert_allclose(smallest[0, 0], numpy.nanmin(whole), rtol=1e-6)

    def table(self, path):
        """The names of columns and rows of a .csv, and its entries."""
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, strict=True))
        self.assertEqual(rows[0][0], "query")
        values = numpy.array([[float(cell) for cell in row[1:]] for row in rows[1:]]).astype(numpy.float32)
        return rows[0][1:], [row[0] for row in rows[1:]], values

    def test_csv_names_positions_and_tokens(self):
        part = ["--rows", "10:14", "--cols", "8:12"]
        columns, rows, value = self.table(self.map("attention", "csv", part))
        # Of ids there are no words.
        ids = self.golden["input_ids"][0]
        self.assertEqual(columns, [f"{p} \u27e8{ids[p]}\u27e9" for p in range(8, 12)])
        self.assertEqual(rows, [f"{p} \u27e8{ids[p]}\u27e9" for p in range(10, 14)])
        self.assertTrue(numpy.array_equal(value, numpy.load(self.map("attention", extra=part)), equal_nan=True))

    def test_csv_of_a_pooled_map_names_ranges(self):
        part = ["--rows", "17:51", "--cols", "5:9", "--size", "7x4"]
        columns, rows, value = self.table(self.map("attention", "csv", part))
        self.assertEqual(rows, [f"{17 + n * 34 // 7}:{17 + (n + 1) * 34 // 7}" for n in range(7)])
        self.assertEqual([name.split(" ")[0] for name in columns], ["5", "6", "7", "8"])
        self.assertTrue(numpy.array_equal(value, numpy.load(self.map("attention", extra=part)), equal_nan=True))

    def distances(self, quantity, ending, *extra):
        """The file of a map by distance, and what was said of its bins."""
        path = self.folder / f"distances.{ending}"
        result = self.foxscope("map", self.run_file, "--head", "1:0", "--quantity", quantity, "--axes", "distance",
                               "--force", "-o", path, *extra)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return path, result.stderr.decode()

    def expected_by_distance(self, whole, edges, queries, reduce=numpy.nanmax):
        """Rows of distances, columns of single queries."""
        rows = []
        for near, far in zip(edges, edges[1:]):
            row = []
            for query in queries:
                keys = [query - distance + 1 for distance in range(near, far) if query - distance + 1 >= 0]
                row.append(reduce(whole[query, keys]) if keys else numpy.nan)
            rows.append(row)
        return numpy.array(rows, numpy.float32)

    def test_rows_by_distance(self):
        for quantity in ["attention", "forget"]:
            whole = numpy.load(self.map(quantity))
            path, said = self.distances(quantity, "csv")
            self.assertIn(f"{LENGTH} queries and {LENGTH} bins of distances 1 to {LENGTH}, by max", said)
            with open(path, newline="", encoding="utf-8") as file:
                table = list(csv.reader(file, strict=True))
            self.assertEqual(table[0][0], "distance")
            self.assertEqual([name.split(" ")[0] for name in table[0][1:]], [str(p) for p in range(LENGTH)])
            self.assertEqual([row[0] for row in table[1:]], [str(d) for d in range(1, LENGTH + 1)])
            value = numpy.array([[float(cell) for cell in row[1:]] for row in table[1:]]).astype(numpy.float32)
            expected = self.expected_by_distance(whole, range(1, LENGTH + 2), range(LENGTH))
            numpy.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7)
            numpy.testing.assert_allclose(numpy.load(self.distances(quantity, "npy")[0]), value, rtol=1e-6)

    def test_bins_of_distances(self):
        whole = numpy.load(self.map("attention"))
        part = ["--rows", "20:60", "--distances", "1:41", "--size", "12x40", "--reduce", "mean"]
        path, _ = self.distances("attention", "csv", *part)
        with open(path, newline="", encoding="utf-8") as file:
            table = list(csv.reader(file, strict=True))
        names = [row[0] for row in table[1:]]
        edges = [int(name.split(":")[0]) for name in names] + [41]
        self.assertEqual((edges[:2], names[0]), ([1, 2], "1"))
        self.assertTrue(all(later > earlier for earlier, later in zip(edges, edges[1:])))
        self.assertEqual(names[-1], f"{edges[-2]}:41")
        # Equal steps of the logarithm, as far as whole distances allow.
        self.assertLess(max(later / earlier for earlier, later in zip(edges[4:], edges[5:])), 1.7)
        value = numpy.array([[float(cell) for cell in row[1:]] for row in table[1:]]).astype(numpy.float32)
        expected = self.expected_by_distance(whole, edges, range(20, 60), numpy.mean)
        numpy.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7)
        path, _ = self.distances("attention", "h5", *part)
        with h5py.File(path) as file:
            group = next(iter(file["maps"].values()))
            self.assertTrue(numpy.array_equal(group["value"][()], numpy.load(self.distances("attention", "npy", *part)[0]),
                                              equal_nan=True))
            self.assertEqual(list(group["distance_edges"][()]), edges)
            self.assertEqual([axis.decode() if isinstance(axis, bytes) else axis for axis in group.attrs["axes"]],
                             ["distance", "query"])
            self.assertEqual(len(group["query"]), 40)
            self.assertEqual(len(group["distance"]), len(names))

    def test_options_of_other_axes_are_refused(self):
        arguments = ["map", self.run_file, "--head", "0:0", "--quantity", "forget", "-o", self.folder / "f.npy"]
        self.fails(2, ["axes 'time' are not known", "key, distance"], *arguments, "--axes", "time")
        self.fails(2, ["--cols", "use --distances"], *arguments, "--axes", "distance", "--cols", "0:4")
        self.fails(2, ["--distances", "--axes distance"], *arguments, "--distances", "1:4")
        self.fails(2, ["--distances 0:4", "begin at 1"], *arguments, "--axes", "distance", "--distances", "0:4")

    def test_csv_keeps_every_token_as_it_is(self):
        text = 'He said, "a,b"\r\n=1+1\t\n\n NA \x1b[31m\u00a0caf\u00e9 \u72d0\U0001f98a "",; \\n end, '
        self.run_file = self.folder / "words.h5"
        self.done("run", "--model", FOX, "--text", self.write("words.txt", text), "-o", self.run_file)
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        read = tokenizer.encode(text).ids[:-1]
        expected = ["0 \u27e8BOS\u27e9"]
        expected += [f"{n} {tokenizer.decode([id_], skip_special_tokens=False)}" for n, id_ in enumerate(read, 1)]
        for hostile in [",", '"', "\r", "\n", "\t", "\x1b", "\\", "\ufffd"]:
            self.assertTrue(any(hostile in name for name in expected), hostile)
        path = self.map("attention", "csv")
        columns, rows, value = self.table(path)
        self.assertEqual(columns, expected)
        self.assertEqual(rows, expected)
        self.assertTrue(numpy.array_equal(value, numpy.load(self.map("attention")), equal_nan=True))
        # A name begins with a digit: no spreadsheet takes one for a formula.
        self.assertTrue(all(name[0].isdigit() for name in rows))

    def test_several_quantities_in_one_hdf5_file(self):
        path = self.map("forget,attention", "h5")
        with h5py.File(path) as file:
            self.assertEqual(sorted(file["maps"]), ["fox-pro_L01_H00_attention", "fox-pro_L01_H00_forget"])
            group = file["maps/fox-pro_L01_H00_attention"]
            self.assertEqual(group.attrs["NX_class"], "NXdata")
            value = group[group.attrs["signal"]][()]
        self.assertTrue(numpy.array_equal(value, numpy.load(self.map("attention")), equal_nan=True))

    def test_differences_of_heads(self):
        difference = numpy.load(self.map("attention", extra=["--minus", "fox-pro:0:1"]))
        first = numpy.load(self.map("attention"))
        second = numpy.load(self.map("attention", layer=0, head=1))
        below = numpy.tri(LENGTH, dtype=bool)
        self.assertLess(numpy.abs(difference - (first - second))[below].max(), 1e-6)
        same = numpy.load(self.map("attention", extra=["--minus", "fox-pro"]))
        self.assertEqual(numpy.nanmax(numpy.abs(same)), 0)


class UsageTest(MapTest):
    def refuses(self, words, *extra, quantity="attention", output="x.npy", layer=0, head=0, code=2):
        path = self.folder / output
        self.fails(code, words, "map", self.run_file, "--layer", layer, "--head", head, "--quantity", quantity, "-o", path,
                   *extra, output=path)

    def test_wrong_options(self):
        self.refuses("layer", layer=2)
        self.refuses("layer", layer=-1)
        self.refuses("head", head=2)
        self.refuses("colour", quantity="colour")
        self.refuses(["several quantities", ".h5"], quantity="forget,attention")
        self.refuses("twice", quantity="forget,forget", output="x.h5")
        self.refuses(["--rows 5", "A:B"], "--rows", "5")
        self.refuses(["--rows 9:3", "0 <= A < B <= 64"], "--rows", "9:3")
        self.refuses("--cols 3:65", "--cols", "3:65")
        self.refuses("A:B", "--cols", "-3:9")
        self.refuses(["--size 9", "512x512"], "--size", "9")
        self.refuses(["--size 65x3", "64x64"], "--size", "65x3")
        self.refuses("1x1", "--size", "0x3")
        self.refuses("absmax", "--reduce", "median")
        self.refuses(["other", "fox-pro"], "--minus", "other")
        self.refuses("NAME:LAYER:HEAD", "--minus", "fox-pro:1")
        self.refuses("layer", "--minus", "fox-pro:7:0")
        self.refuses(["other", "fox-pro"], "--model", "other")
        self.refuses("choose auto, cpu, cuda or cuda:N", "--device", "tpu")
        self.refuses("choose auto, cpu, cuda or cuda:N", "--device", "cuda:x")
        self.refuses(["--device cuda", "CUDA", "use --device cpu"], "--device", "cuda", code=1)

    def test_a_head_is_one_word_and_the_older_two_are_taken(self):
        part = ["--quantity", "attention", "-o", "-", "--format", "csv"]
        said = self.done("map", self.run_file, "--head", "1:0", *part)
        self.assertEqual(self.done("map", self.run_file, "--layer", 1, "--head", 0, *part), said)
        self.assertNotEqual(self.done("map", self.run_file, "--head", "0:1", *part), said)
        for words, *head in [("--layer 1: --head 1:0 names the layer", "--layer", 1, "--head", "1:0"),
                             ("--head 3: write LAYER:HEAD, as in 2:1", "--head", "3"), ("--head a:b", "--head", "a:b")]:
            self.fails(2, words, "map", self.run_file, *head, *part)

    @unittest.skipUnless(DRAWS, "built without Qt")
    def test_a_picture_without_a_head_shows_one_and_says_which(self):
        # A model that keeps a token for few of many tokens.
        ids = self.write("long.json", str([index * 7 % 320 for index in range(3000)]))
        run = self.folder / "long.h5"
        self.done("run", "--model", DATA / "fox-pro", "--ids", ids, "--keep", "gates,rows,qk", "-o", run)
        output = self.folder / "map.pdf"
        draw = ["map", run, "--quantity", "forget", "--force", "-o", output]
        said = self.foxscope(*draw).stderr.decode()
        found = re.search(r"fox-pro: (\d:\d) is drawn \(decay time ([\d.]+) tokens\): --head chooses another; of 3000 "
                          r"positions the first (\d+) are shown", said)
        self.assertTrue(found, said)
        head, memory, shown = found[1], float(found[2]), int(found[3])
        self.assertLess(shown, 3000)
        self.assertTrue(shown / 50 <= memory <= shown / 2 or shown == 64, said)
        text = " ".join(subprocess.run(["pdftotext", output, "-"], capture_output=True, text=True, check=True).stdout.split())
        self.assertIn(f"{shown} of 3000 positions", text)
        # What is asked for stays: a note says where it shows more.
        said = self.foxscope(*draw, "--head", head).stderr.decode()
        self.assertRegex(said, rf"{head}: forgets within so few of 3000 positions that the map is a thin diagonal: --rows "
                               rf"0:\d+ --cols 0:\d+ shows its memory")
        self.assertNotIn("thin", self.foxscope(*draw, "--head", head, "--rows", "0:200", "--cols", "0:200").stderr.decode())
        self.assertNotIn("are shown", self.foxscope(*draw, "--rows", "0:200", "--cols", "0:200").stderr.decode())
        # Numbers are of the head that is named.
        for extra in [["-o", self.folder / "x.npy"], ["--layer", 1, "-o", self.folder / "x.png"]]:
            self.fails(2, "--head is required: see foxscope map --help", "map", run, "--quantity", "forget", *extra)

    def test_standard_output(self):
        for word in ["npy", "csv"]:
            path = self.map("forget", word)
            result = self.foxscope("map", self.run_file, "--head", "1:0", "--quantity", "forget", "-o", "-", "--format", word)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, path.read_bytes(), b""))
        self.fails(2, ["-: cannot tell the format", "--format"], "map", self.run_file, "--head", "1:0", "--quantity", "forget",
                   "-o", "-")
        command = ["map", self.run_file, "--head", "1:0", "--quantity", "forget", "-o", "-", "--format"]
        self.fails(2, "into a file alone", *command, "h5")
        said, status = through_terminal(*command, "npy")
        self.assertEqual(status, 2)
        self.assertIn(b"nothing to read in a terminal", said)

    def test_formats(self):
        self.refuses(["x.txt", ".npy"], output="x.txt")
        for option, value in [("--scale", "log"), ("--limits", "0:1"), ("--colours", "grey"), ("--threshold", "0.1"),
                              ("--title", "A"), ("--width", "5in"), ("--dpi", "300"), ("--font-size", "9")]:
            for output in ["x.npy", "x.h5", "x.csv"]:
                self.refuses([option, output, "numbers, not a picture", "leave the option out"], option, value, output=output)
        self.refuses(["--plain", "x.npy", "numbers, not a picture"], "--plain", output="x.npy")

    def test_the_run_file_is_never_overwritten_by_its_map(self):
        content = self.run_file.read_bytes()
        self.fails(2, "being read", "map", self.run_file, "--layer", 0, "--head", 0, "--quantity", "forget", "--force", "-o",
                   self.folder / "." / self.run_file.name)
        self.assertEqual(self.run_file.read_bytes(), content)

    def test_an_output_that_exists_stays_without_force(self):
        path = self.write("old.npy", "old")
        self.fails(1, ["old.npy", "--force"], "map", self.run_file, "--layer", 0, "--head", 0, "--quantity", "forget", "-o",
                   path)
        self.assertEqual(path.read_text(), "old")

    def test_parts_that_were_not_kept(self):
        self.run_file = self.run_fixture(name="small.h5", extra=["--keep", "loss"])
        self.refuses("--keep", quantity="forget", code=1)
        self.refuses("--keep", quantity="attention", code=1)

    def test_several_models_need_a_name(self):
        path = self.folder / "two.h5"
        self.done("run", "--model", DATA / "fox-pro", "--model", DATA / "transformer-pro", "--ids", self.ids_file(), "-o",
                  path)
        self.run_file = path
        self.refuses(["fox-pro", "transformer-pro", "--model"])
        numpy.load(self.map("attention", extra=["--model", "transformer-pro"]))
        numpy.load(self.map("attention", extra=["--model", "fox-pro", "--minus", "transformer-pro:0:1"]))


@unittest.skipUnless(DRAWS, "built without Qt")
class PictureTest(MapTest):
    GREY = [240, 240, 240]

    def test_a_picture_has_a_white_ground_a_grey_triangle_and_its_command(self):
        pixels, texts = read_png(self.map("attention", "png"))
        self.assertTrue((pixels[0] == 255).all() and (pixels[:, 0] == 255).all())
        self.assertEqual(pixels.shape[1], 5.5 * 300)
        # Just below half of the 64 x 64 entries do not exist; each has as many dots as all others.
        grey = (pixels == self.GREY).all(axis=2).sum()
        side = round((grey / (64 * 63 / 2)) ** 0.5)
        self.assertGreater(side * 64, 1000)
        self.assertAlmostEqual(grey / (side * side * 64 * 63 / 2), 1, delta=0.003)
        self.assertIn("--quantity attention", texts["Command"])
        self.assertIn("fox-pro, layer 1, head 0", texts["Title"])

    def test_every_quantity_is_drawn(self):
        for quantity in ["forget", "log_forget", "logits", "attention", "attention_without_gate", "gate_effect"]:
            with self.subTest(quantity):
                path = self.map(quantity, "png", ["--size", "16x16"])
                self.assertGreater(path.stat().st_size, 5000)
        self.map("attention", "png", ["--minus", "fox-pro:0:0"])
        self.map("attention", "png", ["--scale", "linear"])
        self.map("forget", "png", ["--scale", "log"])
        self.map("forget", "png", ["--rows", "0:1", "--cols", "0:1"])
        self.map("forget", "png", ["--rows", "0:8", "--cols", "20:60"])

    def test_the_same_command_draws_the_same_bytes(self):
        for ending in ["png", "svg", "pdf"]:
            first = self.map("attention", ending).read_bytes()
            for _ in range(4):
                self.assertEqual(self.map("attention", ending).read_bytes(), first)

    def test_width_resolution_and_letters(self):
        def width_of(*options):
            return read_png(self.map("forget", "png", options))[0].shape[1]
        self.assertEqual(width_of("--width", "2.65in"), 795)
        self.assertEqual(width_of("--width", "140mm", "--dpi", "100"), round(140 / 25.4 * 100))
        for option, ending in [(["--width", "67.31mm", "--font-size", "7"], "pdf"), (["--width", "2.65in"], "pdf")]:
            info = subprocess.run(["pdfinfo", self.map("forget", ending, option)], capture_output=True, check=True, text=True)
            self.assertRegex(info.stdout, r"Page size: +190.8")
            self.assertIn("--quantity forget", info.stdout)
            self.assertNotIn("CreationDate", info.stdout)
        svg = xml.etree.ElementTree.parse(self.map("forget", "svg", ["--width", "80mm"])).getroot()
        self.assertEqual(svg.get("width"), "80.0000mm")
        texts = {child.tag.split("}")[1]: child.text for child in svg if child.text and child.text.strip()}
        self.assertIn("fox-pro, layer 1, head 0", texts["title"])
        weights = self.run_weights()
        self.assertIn(weights, texts["desc"])

    def run_weights(self):
        with h5py.File(self.run_file) as file:
            return file["models/fox-pro"].attrs["weights_sha256"]

    def test_sizes_that_are_none_are_refused_in_one_line(self):
        for extra, words in [(["--width", "5"], ["--width 5", "140mm or 5.5in"]),
                             (["--width", "5cm"], "140mm or 5.5in"),
                             (["--width", "wide"], "140mm or 5.5in"),
                             (["--width", "0mm"], ["width 0 mm", "1000 mm"]),
                             (["--width=-5.5in"], "more than 0"),
                             (["--width", "nanmm"], "more than 0"),
                             (["--width", "1001mm"], "at most 1000 mm"),
                             (["--width", "20mm"], ["20 mm", "no room for a map"]),
                             (["--dpi", "3"], ["3 dpi", "36 to 2400"]),
                             (["--dpi", "many"], "--dpi"),
                             (["--font-size", "1"], ["1 pt", "4 to 48"]),
                             (["--font-size", "nan"], "4 to 48"),
                             (["--width", "900mm", "--dpi", "1200"], "fewer dpi"),
                             (["--width", "55mm", "--dpi", "36", "--size", "60x60"], ["--size 60x60", "room for", ".pdf"])]:
            for output in ["x.png"] if "--size" in extra else ["x.png", "x.svg", "x.pdf"]:
                with self.subTest(extra=extra, output=output):
                    path = self.folder / output
                    self.fails(2, words, "map", self.run_file, "--layer", 0, "--head", 0, "--quantity", "forget", "-o", path,
                               *extra, output=path)

    def test_a_large_region_is_pooled_and_the_program_says_so(self):
        ids = self.write("long.json", str([index % 300 for index in range(1500)]))
        self.run_file = self.folder / "long.h5"
        self.done("run", "--model", DATA / "fox-pro", "--ids", ids, "-o", self.run_file)
        arguments = ["map", self.run_file, "--layer", 0, "--head", 0, "--quantity", "forget", "--width", "100mm", "-o",
                     self.folder / "x.png"]
        said = self.foxscope(*arguments).stderr.decode()
        found = re.search(r"1500 x 1500 entries are drawn on (\d+) x (\d+) pixels by max", said)
        self.assertTrue(found, said)
        # As many as there are dots: a map of that many entries is drawn with a dot for each.
        self.assertEqual(found[1], found[2])
        self.assertTrue(600 < int(found[1]) < 100 / 25.4 * 300)
        self.assertEqual(self.foxscope(*arguments, "--force", "-q").stderr, b"")

    def test_scales(self):
        for quantity, scale, words in [("gate_effect", "log", ["gate_effect", "linear"]),
                                       ("attention", "odd", ["--scale odd", "auto, linear or log"])]:
            path = self.folder / "x.png"
            self.fails(2, words, "map", self.run_file, "--layer", 0, "--head", 0, "--quantity", quantity, "--scale", scale, "-o",
                       path, output=path)

    def test_limits_colours_and_title_are_chosen(self):
        pixels, texts = read_png(self.map("attention", "png", ["--scale", "linear", "--limits", "0.1:0.2", "--title", "A *head*",
                                                                "--colours", "grey", "--threshold", "0.05"]))
        self.assertIn("linear from 0.1 to 0.2", texts["Description"])
        self.assertIn("A *head*", texts["Title"])
        self.assertTrue((pixels[..., 0] == pixels[..., 2]).all())
        path = self.folder / "x.png"
        for option, value, words in [("--limits", "1", ["--limits 1", "write A:B, A: or :B"]),
                                     ("--limits", "2:1", ["the lower must be below the upper"]),
                                     ("--colours", "red", ["--colours red", "viridis", "grey or diverging"])]:
            self.fails(2, words, "map", self.run_file, "--layer", 0, "--head", 0, "--quantity", "forget", option, value, "-o",
                       path, output=path)

    def test_no_display_is_needed(self):
        path = self.folder / "x.png"
        result = self.foxscope("map", self.run_file, "--layer", 0, "--head", 0, "--quantity", "forget", "-o", path,
                               environment={"DISPLAY": "", "WAYLAND_DISPLAY": "", "QT_QPA_PLATFORM": "xcb"})
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertTrue(path.exists())


@unittest.skipIf(DRAWS, "built with Qt")
class NoPictureTest(MapTest):
    def test_a_build_without_qt_says_so(self):
        for name in ["x.png", "x.svg", "x.pdf"]:
            path = self.folder / name
            self.fails(1, ["no Qt", "FOXSCOPE_GUI=ON", ".npy"], "map", self.run_file, "--layer", 0, "--head", 0, "--quantity",
                       "forget", "-o", path, output=path)


if __name__ == "__main__":
    unittest.main()
