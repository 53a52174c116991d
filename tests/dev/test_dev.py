"""`./dev`, with stand-ins for the programs that it calls: each writes down how it was called."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["FOXSCOPE_SOURCE_DIR"])
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1234 (apt-get)"


class DevTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="foxscope-dev-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.calls = self.folder / "calls"
        self.checkout = self.folder / "checkout"
        (self.checkout / "resources" / "figures").mkdir(parents=True)
        for name in ["dev", "requirements.txt", "requirements-build.txt", "resources/deps.sh"]:
            shutil.copy(SOURCE / name, self.checkout / name)
        self.tool("pip", "", folder=self.checkout / ".venv" / "bin")
        self.tool("dpkg-query", "printf installed")
        self.tool("apt-get", "")
        self.tool("sudo", '[[ $1 != -n ]] || shift; "$@"')
        self.tool("cmake", "")

    def tool(self, name, script, folder=None):
        """A program of this name that notes its arguments and does this."""
        folder = folder or self.folder / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text(f'#!/bin/bash\n[[ {name} == dpkg-query ]] || echo "{name} $*" >>"{self.calls}"\n{script}\n')
        path.chmod(0o755)

    def dev(self, *arguments, as_nobody=False, **environment):
        """./dev, by a user without root if it is to be so."""
        user = ["setpriv", "--reuid=65534", "--clear-groups"] if as_nobody and os.geteuid() == 0 else []
        variables = {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "HOME": str(self.folder), "FOXSCOPE_CUDA": "OFF",
                     **environment}
        self.calls.write_text("")
        return subprocess.run([*user, self.checkout / "dev", *arguments], env=variables, capture_output=True, text=True,
                              timeout=120)

    def called(self, name):
        return [line for line in self.calls.read_text().splitlines() if line.split()[0] == name]


class PackagesTest(DevTest):
    def setUp(self):
        super().setUp()
        self.tool("dpkg-query", '[[ $* == *ccache* ]] || printf installed')

    def test_only_what_is_missing_is_installed(self):
        result = self.dev("setup")
        self.assertEqual(result.returncode, 0, result.stderr)
        update, install = self.called("apt-get")
        self.assertIn("update", update)
        self.assertRegex(install, "install .* ccache$")
        self.tool("dpkg-query", "printf installed")
        self.dev("setup")
        self.assertEqual(self.called("apt-get"), [])

    def test_locks_of_other_processes_are_waited_for(self):
        """dpkg's by apt-get itself, that of the package lists by trying again."""
        for step in ["update", "install"]:
            with self.subTest(step):
                gone = self.folder / f"{step}-went"
                self.tool("apt-get", f'if [[ $* == *{step}* && ! -e "{gone}" ]]; then touch "{gone}"; '
                                     f'echo "{LOCKED}" >&2; exit 100; fi')
                result = self.dev("setup")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("waiting for another process", result.stderr)
                calls = self.called("apt-get")
                self.assertEqual(len(calls), 3)
                for call in calls:
                    self.assertIn("DPkg::Lock::Timeout=", call)

    def test_pip_and_apt_get_work_beside_each_other(self):
        """Each waits for the other, but pip for the packages that it is itself made of."""
        begun = self.folder / "begun"
        wait = f'for _ in {{1..500}}; do [[ ! -e "{begun}-%s" ]] || exit 0; sleep 0.01; done; exit 1'
        self.tool("apt-get", f'[[ $* == *install* ]] || exit 0; touch "{begun}-apt"; {wait % "pip"}')
        self.tool("pip", f'touch "{begun}-pip"; {wait % "apt"}', folder=self.checkout / ".venv" / "bin")
        result = self.dev("setup")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.tool("dpkg-query", '[[ $* == *python3-venv* ]] || printf installed')
        self.tool("apt-get", "")
        for stamp in (self.checkout / ".venv").glob(".installed-*"):
            stamp.unlink()
        self.dev("setup")
        names = [line.split()[0] for line in self.calls.read_text().splitlines()]
        self.assertEqual(names[:2], ["apt-get", "apt-get"])
        self.assertIn("pip", names)

    def test_packages_that_fail_end_it_after_pip(self):
        self.tool("apt-get", '[[ $* != *install* ]] || { sleep 0.2; echo "E: no space" >&2; exit 100; }')
        for pip in ["", "exit 1"]:
            self.tool("pip", pip, folder=self.checkout / ".venv" / "bin")
            result = self.dev("setup")
            self.assertEqual(result.returncode, 1)
            self.assertIn("E: no space", result.stderr)

    def test_other_failures_end_it_with_what_was_said(self):
        self.tool("apt-get", 'echo "E: Unable to locate package ccache" >&2; exit 100')
        result = self.dev("setup")
        self.assertEqual(result.returncode, 1)
        self.assertIn("Unable to locate package ccache", result.stderr)
        self.assertEqual(len(self.called("apt-get")), 1)


class UnpackedTest(DevTest):
    """Packages without root. apt-get brings packages that are made here; the real dpkg-deb unpacks them."""

    LIBRARIES = "usr/lib/x86_64-linux-gnu"

    def setUp(self):
        super().setUp()
        self.deps = self.checkout / ".deps"
        self.brought = self.folder / "brought"
        self.brought.mkdir()
        self.missing("ccache", "libzstd-dev")
        self.tool("apt-cache", "printf '%s\\n' ccache libzstd-dev")
        self.tool("apt-get", f'[[ $* != *--download-only* ]] || cp "{self.brought}"/*.deb "{self.deps}/apt/archives"')
        self.package("ccache", {"usr/bin/ccache": "program"})

    def missing(self, *names):
        self.tool("dpkg-query", f'case ${{@: -1}} in {"|".join(names)}) ;; *) printf installed ;; esac')

    def package(self, name, files, links=()):
        """A package that apt-get brings, with these files and links."""
        root = self.folder / "packages" / name
        for path, text in {"DEBIAN/control": f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\n"
                                             "Description: made for a test\n", **files}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            (root / path).chmod(0o755 if "/bin/" in path else 0o644)
        for path, target in dict(links).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(target)
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", root, self.brought / f"{name}.deb"],
                       check=True, capture_output=True)

    def unpacked(self):
        result = self.dev("setup", FOXSCOPE_DEPS="local")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_is_missing_is_downloaded_once_and_nothing_is_installed(self):
        self.unpacked()
        update, install = self.called("apt-get")
        self.assertTrue(update.startswith("apt-get -qq"), update)
        self.assertIn(" update ", update)
        self.assertRegex(install, r" install .*--no-install-recommends --download-only ccache libzstd-dev$")
        for call in [update, install]:
            self.assertIn(f"Dir::State={self.deps}/apt", call)
            self.assertIn(f"Dir::State::status={self.deps}/apt/status", call)
            self.assertIn("Debug::NoLocking=1", call)
        self.assertEqual(self.called("sudo"), [])
        self.assertEqual((self.deps / "usr/bin/ccache").read_text(), "program")
        self.assertEqual(list((self.deps / "apt/archives").glob("*.deb")), [])
        self.missing("ccache")
        self.unpacked()
        self.assertEqual(self.called("apt-get"), [])

    def test_what_was_unpacked_counts_as_installed_where_more_is_missing(self):
        self.unpacked()
        (self.brought / "ccache.deb").unlink()
        self.package("libzstd-dev", {"usr/include/zstd.h": ""})
        self.unpacked()
        (_, install) = self.called("apt-get")
        self.assertTrue(install.endswith("--download-only libzstd-dev"), install)
        status = (self.deps / "apt/status").read_text()
        self.assertIn("Package: ccache\nStatus: install ok installed\nVersion: 1.0\n", status)
        self.assertIn("Package: dpkg\n", status)
        self.assertTrue((self.deps / "usr/include/zstd.h").exists())

    def test_links_and_paths_lead_into_deps_or_to_what_the_system_has(self):
        self.package("libzstd-dev", {
            f"lib/x86_64-linux-gnu/libown.so.1.2": "own", f"{self.LIBRARIES}/libown.a": "twin",
            f"{self.LIBRARIES}/libalone.a": "alone", "usr/share/doc/libown/copyright": "text",
            f"{self.LIBRARIES}/libc.so": f"GROUP ( /lib/x86_64-linux-gnu/libc.so.6 /{self.LIBRARIES}/libc_nonshared.a )",
            f"{self.LIBRARIES}/pkgconfig/own.pc": "prefix=/usr\nlibdir=${prefix}/lib\n",
            "usr/bin/h5cc": 'prefix="/usr"\n',
            "usr/lib/python3.11/_sysconfigdata__x.py": "{'WHEEL_PKG_DIR': '/usr/share/python-wheels/'}\n"},
            {f"{self.LIBRARIES}/libown.so": "/lib/x86_64-linux-gnu/libown.so.1.2",
             f"{self.LIBRARIES}/libsystem.so": "libc.so.6"})
        self.unpacked()
        libraries = self.deps / self.LIBRARIES
        self.assertEqual((libraries / "libown.so.1.2").read_text(), "own")
        self.assertEqual((libraries / "libown.so").read_text(), "own")
        self.assertTrue(os.path.samefile(libraries / "libsystem.so", "/lib/x86_64-linux-gnu/libc.so.6"))
        self.assertFalse((libraries / "libown.a").exists())
        self.assertTrue((libraries / "libalone.a").exists())
        self.assertFalse((self.deps / "usr/share/doc/libown").exists())
        self.assertEqual((libraries / "libc.so").read_text(), "GROUP ( /lib/x86_64-linux-gnu/libc.so.6 libc_nonshared.a )")
        self.assertIn(f"prefix={self.deps}/usr\n", (libraries / "pkgconfig/own.pc").read_text())
        self.assertEqual((self.deps / "usr/bin/h5cc").read_text(), f'prefix="{self.deps}/usr"\n')
        self.assertIn(f"'{self.deps}/usr/share/python-wheels/'",
                      (self.deps / "usr/lib/python3.11/_sysconfigdata__x.py").read_text())

    def test_programs_of_the_packages_are_called_by_the_build(self):
        self.package("ccache", {"usr/bin/only-unpacked": "#!/bin/sh\necho called with $LD_LIBRARY_PATH,$GIT_EXEC_PATH.\n"})
        self.tool("cmake", "only-unpacked >&2")
        result = self.dev("build", FOXSCOPE_DEPS="local")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"called with {self.deps / self.LIBRARIES},.\n", result.stderr)

    def test_programs_of_the_packages_are_called_by_what_needs_no_build(self):
        self.missing("clang-format")
        self.tool("apt-cache", "echo clang-format")
        self.package("clang-format", {"usr/bin/clang-format": f'#!/bin/sh\necho "clang-format $*" >>"{self.calls}"\n',
                                      "usr/bin/git": "#!/bin/sh\necho some.cpp\n"})
        for _ in ["unpacked", "there"]:
            result = self.dev("format", FOXSCOPE_DEPS="local")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.called("clang-format"), ["clang-format -i some.cpp"])

    def test_a_build_without_them_is_configured_again(self):
        for build in ["build", "build-asan"]:
            (self.checkout / build).mkdir()
            (self.checkout / build / "CMakeCache.txt").write_text("")
        self.unpacked()
        self.assertEqual(list(self.checkout.glob("build*/CMakeCache.txt")), [])

    def test_what_cannot_be_had_is_asked_for_in_one_line(self):
        self.tool("apt-cache", "echo libzstd-dev")
        result = self.dev("setup", FOXSCOPE_DEPS="local")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the system's package sources do not have: ccache\n", result.stderr)
        self.assertIn("ask the administrator: apt-get install --no-install-recommends ccache libzstd-dev\n", result.stderr)
        self.tool("apt-cache", "printf '%s\\n' ccache libzstd-dev")
        self.tool("apt-get", '[[ $* != *--download-only* ]] || { echo "E: no space" >&2; exit 100; }')
        result = self.dev("setup", FOXSCOPE_DEPS="local")
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get install: E: no space\n", result.stderr)
        self.assertIn("ask the administrator: apt-get install --no-install-recommends ccache libzstd-dev\n", result.stderr)
        self.assertEqual((self.deps / "installed").read_text(), "")

    def test_a_broken_package_is_not_taken_for_unpacked(self):
        whole = (self.brought / "ccache.deb").read_bytes()
        (self.brought / "ccache.deb").write_bytes(whole[:len(whole) - 40])
        result = self.dev("setup", FOXSCOPE_DEPS="local")
        self.assertEqual(result.returncode, 1)
        self.assertIn("unpacking into .deps failed", result.stderr)
        self.assertEqual((self.deps / "installed").read_text(), "")
        (self.brought / "ccache.deb").write_bytes(whole)
        self.unpacked()
        self.assertEqual((self.deps / "usr/bin/ccache").read_text(), "program")

    def test_an_x_server_is_left_to_the_administrator(self):
        shutil.copy(SOURCE / "requirements-test.txt", self.checkout)
        self.missing("xvfb", "openbox")
        result = self.dev("asan", "--folders", "text", FOXSCOPE_DEPS="local")
        self.assertIn("for one, ask the administrator: apt-get install xvfb openbox\n", result.stderr)
        self.assertEqual(self.called("apt-get"), [])

    def test_who_can_become_root_installs_and_others_unpack(self):
        self.calls.touch()
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(0o777)
        for sudo, groups, unpacks in [("exit 1", "people", True), ("exit 1", "people sudo", False),
                                      ('[[ $1 != -n ]] || shift; "$@"', "people", False)]:
            with self.subTest(sudo=sudo, groups=groups):
                self.tool("sudo", sudo)
                self.tool("id", f"echo {groups}")
                shutil.rmtree(self.deps, ignore_errors=True)
                self.dev("setup", as_nobody=True)
                self.assertEqual(self.deps.exists(), unpacks)
                self.assertEqual(any("apt-get" in call for call in self.called("sudo")), not unpacks)


class UnpackedBuildTest(unittest.TestCase):
    """cmake/Deps.cmake and the program's start, by small projects beside a .deps folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="foxscope-deps-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.deps = self.folder / ".deps"
        self.libraries = self.deps / "usr" / "lib" / "x86_64-linux-gnu"
        self.libraries.mkdir(parents=True)
        (self.deps / "usr" / "include").mkdir()

    def run_tool(self, *command, **more):
        result = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, **more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def test_libraries_of_deps_are_found_by_cmake_and_by_the_program(self):
        """Also one that only another library names."""
        self.write("inner.c", "int inner(void) { return 3; }")
        self.write("outer.c", "int inner(void); int outer(void) { return inner(); }")
        self.run_tool("gcc", "-shared", "-fPIC", "inner.c", "-o", self.libraries / "libfoxinner.so")
        self.run_tool("gcc", "-shared", "-fPIC", "outer.c", f"-L{self.libraries}", "-lfoxinner",
                      "-o", self.libraries / "libfoxouter.so")
        (self.deps / "usr/include/foxouter.h").write_text("int outer(void);")
        self.write("main.c", "#include <foxouter.h>\n#include <stdlib.h>\nint main(void) { return outer() - 3; }")
        self.write("CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.28)
include({SOURCE}/cmake/Deps.cmake)
project(some C CXX)
find_library(OUTER foxouter REQUIRED)
add_executable(some main.c)
target_link_libraries(some ${{OUTER}})
""")
        cmake = os.environ["FOXSCOPE_CMAKE"]
        environment = {**os.environ, "PATH": f"{pathlib.Path(cmake).parent}:{os.environ['PATH']}", "LD_LIBRARY_PATH": ""}
        self.run_tool(cmake, "-G", "Ninja", "-B", "build", env=environment)
        self.run_tool(cmake, "--build", "build", env=environment)
        self.run_tool(self.folder / "build" / "some", env=environment)

    def test_the_program_finds_plugins_and_fonts_unless_the_user_names_others(self):
        self.write("stub.cpp", """#include <cstdio>
#include <cstdlib>
#include "app/cli/command.h"
int foxscope::cli::runProgram(const std::vector<std::string>&) {
  for (const char* name : {"QT_PLUGIN_PATH", "FONTCONFIG_FILE", "XKB_CONFIG_ROOT"}) {
    const char* value = std::getenv(name);
    std::printf("%s\\n", value == nullptr ? "unset" : value);
  }
  return 0;
}
""")
        plugins = self.libraries / "qt6" / "plugins"
        plugins.mkdir(parents=True)
        (self.deps / "fonts.conf").write_text("")
        own = {"PATH": os.environ["PATH"], "FONTCONFIG_FILE": "/own.conf"}
        for deps, found in [(self.deps, [str(plugins), "/own.conf", "unset"]), ("", ["unset", "/own.conf", "unset"])]:
            self.run_tool("g++", "-std=c++20", f"-I{SOURCE}", f'-DFOXSCOPE_DEPS="{deps}"', SOURCE / "app" / "main.cpp",
                          "stub.cpp", "-o", "program")
            self.assertEqual(self.run_tool(self.folder / "program", env=own).split(), found)


class ListsTest(DevTest):
    def setUp(self):
        super().setUp()
        self.lists = {name: (self.checkout / name).read_text() for name in ["requirements.txt", "requirements-build.txt"]}

    def installed(self):
        """The lists that ./dev setup gives to pip."""
        result = self.dev("setup")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [call.split(" -r ")[1] for call in self.called("pip")]

    def test_a_list_is_installed_once(self):
        self.assertEqual(self.installed(), ["requirements-build.txt", "requirements.txt"])
        self.assertEqual(self.installed(), [])

    def test_a_list_that_is_as_it_was_before_is_installed_again(self):
        """As where another commit is checked out and the first one again."""
        self.installed()
        for text in [self.lists["requirements.txt"].replace("torch==", "torch==9."), self.lists["requirements.txt"]]:
            (self.checkout / "requirements.txt").write_text(text)
            self.assertEqual(self.installed(), ["requirements.txt"])
            self.assertEqual(self.installed(), [])

    def test_lists_take_packages_from_one_another(self):
        self.installed()
        (self.checkout / "requirements-build.txt").write_text(self.lists["requirements-build.txt"] + "torch==9.0.0\n")
        self.assertEqual(self.installed(), ["requirements-build.txt", "requirements.txt"])
        for own in ["torch-like==9.0.0\n", ""]:
            (self.checkout / "requirements-build.txt").write_text(self.lists["requirements-build.txt"] + own)
            self.assertEqual(self.installed(), ["requirements-build.txt"])

    def test_packages_are_those_that_were_pinned(self):
        """By hash, where a list holds all that is installed of it."""
        self.installed()
        for call in self.called("pip"):
            self.assertIn("--no-deps --require-hashes -r", call)
        for name in ["requirements.txt", "requirements-build.txt", "requirements-cutlass.txt", "requirements-test.txt",
                     "requirements-harness.txt", "requirements-wheel.txt"]:
            for line in (SOURCE / name).read_text().splitlines():
                if not line.startswith("#"):
                    self.assertRegex(line, r"\A[\w.-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})+\Z", name)

    def test_what_failed_is_tried_again(self):
        self.tool("pip", "exit 1", folder=self.checkout / ".venv" / "bin")
        self.assertEqual(self.dev("setup").returncode, 1)
        self.tool("pip", "", folder=self.checkout / ".venv" / "bin")
        self.assertEqual(self.installed(), ["requirements-build.txt", "requirements.txt"])


class WheelTest(DevTest):
    def setUp(self):
        super().setUp()
        shutil.copy(SOURCE / "requirements-wheel.txt", self.checkout)
        self.tool("python3", "", folder=self.checkout / ".venv" / "bin")
        self.tool("pip", '[[ $1 != wheel ]] || { mkdir -p dist; touch dist/foxscope-2.whl; echo "holds $FOXSCOPE_WHEEL_PROGRAM"; }',
                  folder=self.checkout / ".venv" / "bin")

    def test_the_wheel_of_before_goes_and_the_new_one_is_tried(self):
        (self.checkout / "dist").mkdir()
        (self.checkout / "dist" / "foxscope-1.whl").touch()
        result = self.dev("wheel")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"holds {self.checkout}/build/wheel\n", result.stdout)
        self.assertEqual([path.name for path in (self.checkout / "dist").iterdir()], ["foxscope-2.whl"])
        self.assertEqual(self.called("python3"), ["python3 python/wheel/program_tree.py build build/wheel",
                                                  "python3 python/wheel/try_wheel.py dist/foxscope-2.whl"])
        self.assertIn("requirements-wheel.txt", "".join(self.called("pip")))

    def test_a_wheel_that_does_not_pass_is_an_error(self):
        self.tool("python3", "[[ $1 != */try_wheel.py ]]", folder=self.checkout / ".venv" / "bin")
        self.assertEqual(self.dev("wheel").returncode, 1)

    def test_without_root_it_says_why_it_makes_none(self):
        result = self.dev("wheel", FOXSCOPE_DEPS="local")
        self.assertEqual(result.returncode, 1)
        self.assertIn("make it where you can become root", result.stderr)
        self.assertEqual(self.called("pip"), [])


class SanitizeTest(DevTest):
    def setUp(self):
        super().setUp()
        shutil.copy(SOURCE / "requirements-test.txt", self.checkout)
        self.tool("ctest", "")
        self.tool("python3", "", folder=self.checkout / ".venv" / "bin")

    def test_tests_of_some_folders_are_built_and_run_alone(self):
        result = self.dev("asan", "--folders", "text,file", "--verbose")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--preset asan --target foxscope_test_text foxscope_test_file", self.called("cmake")[-1])
        (tests,) = self.called("ctest")
        self.assertIn("--preset asan ", tests)
        self.assertTrue(tests.endswith(r"-R ^(text|file)\. --verbose"), tests)
        self.assertEqual(self.called("python3"), [])
        self.assertEqual(self.dev("tsan").returncode, 0)
        self.assertIn("--preset tsan --target all", self.called("cmake")[-1])
        self.assertIn("say which", self.dev("asan", "--folders").stderr)

    def test_skipped_tests_are_looked_at_in_continuous_integration(self):
        self.dev("asan", "--folders", "text", CI="true")
        self.assertEqual(self.called("python3"), ["python3 tests/skipped.py build-asan/Testing/Temporary/LastTest.log"])
        self.tool("python3", "exit 1", folder=self.checkout / ".venv" / "bin")
        self.assertEqual(self.dev("asan", "--folders", "text", CI="true").returncode, 1)


class InstallTest(DevTest):
    def test_the_program_and_its_manual_are_built_and_put_there(self):
        result = self.dev("install", "/some/where")
        self.assertEqual(result.returncode, 0, result.stderr)
        built, put = self.called("cmake")[-2:]
        self.assertIn("--preset release --target foxscope foxscope_manual ", built)
        self.assertEqual(put, "cmake --install build --prefix /some/where")

    def test_what_could_not_be_built_is_not_put_there(self):
        self.tool("cmake", "[[ $1 != --build ]]")
        self.assertEqual(self.dev("install", "/some/where").returncode, 1)
        self.assertIn("--build", self.called("cmake")[-1])

    def test_without_a_place_nothing_is_done(self):
        result = self.dev("install")
        self.assertEqual(result.returncode, 1)
        self.assertIn("say where, as in ./dev install ~/.local", result.stderr)
        self.assertEqual(self.calls.read_text(), "")


class ContainerTest(DevTest):
    """The recipes of resources/container, and their steps without root: what they call is stood in for."""

    RECIPES = SOURCE / "resources" / "container"

    def taken(self, recipe, pattern):
        """What a recipe takes from the checkout."""
        return {name for line in re.findall(pattern, (self.RECIPES / recipe).read_text(), re.M) for name in line.split()}

    def test_both_recipes_take_what_the_build_names_and_it_is_there(self):
        taken = self.taken("apptainer.def", r"^ +(\S+) /usr/src/foxscope/$")
        self.assertEqual(taken, self.taken("Containerfile", r"^COPY (?!--)(.*) \S+$"))
        there = {path.name for name in taken for path in SOURCE.glob(name)}
        for name in taken:
            self.assertTrue(any(SOURCE.glob(name)), f"{name}: no such file")
        build = (SOURCE / "CMakeLists.txt").read_text()
        for name in re.findall(r"^ *(?:add_subdirectory|include)\(([a-z]\w*)", build, re.M):
            self.assertIn(name, there)
        script = (SOURCE / "dev").read_text()
        for name in re.findall(r"requirements[\w-]*\.txt", script) + re.findall(r"^\. (\w+)/", script, re.M):
            self.assertIn(name, there)

    def test_both_recipes_go_through_the_same_steps(self):
        steps = [re.findall(r"container/(steps .*)", (self.RECIPES / recipe).read_text())
                 for recipe in ["apptainer.def", "Containerfile"]]
        self.assertEqual(steps[0], ["steps build /image", "steps packages"])
        self.assertEqual(steps[0], steps[1])

    def build(self, linked):
        """The image's folder that `steps build` fills where the program needs these libraries."""
        image = self.folder / "image"
        shutil.copytree(self.RECIPES, self.checkout / "resources" / "container", dirs_exist_ok=True)
        self.tool("cmake", '[[ $1 != --install ]] || { mkdir -p "$DESTDIR$4"/{bin,lib/foxscope}; '
                           'touch "$DESTDIR$4"/{bin/foxscope,lib/foxscope/libfoxscope_core.so}; }')
        self.tool("ldd", "".join(f'echo "  {pathlib.Path(path).name} => {path} (0x01)"\n' for path in linked))
        self.tool("dpkg", "for path in \"${@:2}\"; do path=${path#\\*}; echo \"of-${path##*/}:amd64: /usr$path\"; done")
        result = subprocess.run([self.checkout / "resources" / "container" / "steps", "build", image], text=True,
                                env={"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "FOXSCOPE_CUDA": "OFF"},
                                capture_output=True)
        return image, result

    def wheel_library(self, name):
        path = self.checkout / ".venv" / "lib" / "python3.11" / "site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        return path

    def test_the_image_takes_the_libraries_that_the_program_needs(self):
        cpu, cuda, python, cudnn = map(self.wheel_library, [
            "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cuda.so", "torch/lib/libtorch_python.so",
            "nvidia/cudnn/lib/libcudnn_ops.so.9"])
        of_debian = "/lib/x86_64-linux-gnu/libz.so.1"
        for linked, libraries in [([cpu], {cpu}), ([cpu, cuda], {cpu, cuda, cudnn})]:
            image, result = self.build([*linked, of_debian])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((image / "opt/foxscope/bin/foxscope").exists())
            within = image / self.checkout.relative_to("/")
            self.assertEqual({path for path in within.rglob("*") if path.is_file()},
                             {within / path.relative_to(self.checkout) for path in libraries})
            packages = (image / "opt/foxscope/container/packages").read_text().split()
            self.assertIn("of-libz.so.1", packages)
            self.assertIn("fonts-dejavu-core", packages)
            self.assertTrue(os.access(image / "opt/foxscope/container/steps", os.X_OK))

    def test_a_library_that_is_not_found_ends_the_build(self):
        cpu = self.wheel_library("torch/lib/libtorch_cpu.so")
        _, result = self.build([cpu, "not found"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("not found", result.stderr)


class SkippedTest(unittest.TestCase):
    """tests/skipped.py, on logs of ctest."""

    ALLOWED = """[ RUN      ] CudaMap.Pools
/foxscope/tests/map/cuda_map_test.cpp:57: Skipped
no CUDA device, or a build without CUDA

[  SKIPPED ] CudaMap.Pools (0 ms)
[       OK ] PooledMap.Pools (3 ms)
SKIPPED test_figure.Nothing.test_it: built with Qt
"""

    def look(self, log):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            file.write(log)
            file.flush()
            result = subprocess.run(["python3", SOURCE / "tests" / "skipped.py", file.name], capture_output=True, text=True)
        return result.returncode, result.stdout

    def test_a_gpu_may_be_missing_a_package_may_not(self):
        self.assertEqual(self.look(""), (0, "0 tests were skipped, 0 of them for want of something that can be installed\n"))
        self.assertEqual(self.look(self.ALLOWED)[0], 0)
        for line, said in [
                ("SKIPPED test_serve_harness.HarnessTest.test_it: lm_eval is not installed: ./dev test installs it\n",
                 "test_it was skipped: lm_eval is not installed"),
                ("a_test.cpp:1: Skipped\nthe Python package tokenizers is missing\n\n[  SKIPPED ] Peer.Agrees (0 ms)\n",
                 "Peer.Agrees was skipped: the Python package tokenizers is missing"),
                ("[  SKIPPED ] Suite.Silent (0 ms)\n", "Suite.Silent was skipped: ")]:
            code, text = self.look(self.ALLOWED + line)
            self.assertEqual(code, 1)
            self.assertIn(said, text)


class RunTest(DevTest):
    """Without a display."""

    def setUp(self):
        super().setUp()
        resources = self.checkout / "resources"
        for model in ["fox-pro-12m", "transformer-pro-12m", "mamba2-12m", "gated-deltanet-1m"]:
            (resources / "models" / model).mkdir(parents=True)
            (resources / "models" / model / "config.json").write_text("{}")
        (resources / "texts").mkdir()
        (resources / "texts" / "up-from-slavery-1.txt").write_text("text")
        for name in ["loss", "maps", "memories"]:
            (resources / "figures" / f"{name}.json").write_text("{}")
        (resources / "figures" / "loss.h5").write_text("")
        # Writes what stands behind -o.
        self.tool("foxscope", 'while (($#)); do [[ $1 != -o ]] || echo made >"$2"; shift; done',
                  folder=self.checkout / "build")
        self.age = 1000
        for path in [self.checkout / "build" / "foxscope", *resources.rglob("*")]:
            self.touch(path)

    def touch(self, path):
        """Times are set, later than all before: no test waits for a clock."""
        self.age += 10
        os.utime(path, (self.age, self.age))

    def made(self):
        """What ./dev run made, by name, the pictures, which are drawn at once, last; times in that order."""
        result = self.dev("run", DISPLAY="", WAYLAND_DISPLAY="")
        self.assertEqual(result.returncode, 0, result.stderr)
        paths = [call.split(" -o ")[1].split()[0] for call in self.called("foxscope") if " -o " in call]
        paths.sort(key=lambda path: path if "figures/" in path else "")
        for path in paths:
            self.touch(self.checkout / path)
        return [pathlib.Path(path).name for path in paths]

    def test_what_is_there_is_not_made_again(self):
        everything = ["run.h5", "memories.h5", "heads-fox-pro-12m.csv", "heads-transformer-pro-12m.csv",
                      "heads-mamba2-12m.csv", "heads-gated-deltanet-1m.csv", "loss.pdf", "loss.png", "maps.pdf", "maps.png",
                      "memories.pdf", "memories.png"]
        self.assertEqual(self.made(), everything)
        self.assertEqual(self.made(), [])
        figures = self.checkout / "resources" / "figures"
        self.touch(figures / "maps.json")
        self.assertEqual(self.made(), ["maps.pdf", "maps.png"])
        self.touch(figures / "loss.h5")
        self.assertEqual(self.made(), ["loss.pdf", "loss.png"])
        (self.checkout / "out" / "figures" / "loss.png").unlink()
        self.assertEqual(self.made(), ["loss.png"])
        of_texts = [name for name in everything if not name.startswith("loss")]
        of_memories = ["memories.h5", "heads-mamba2-12m.csv", "heads-gated-deltanet-1m.csv", "memories.pdf",
                       "memories.png"]
        of_run = [name for name in of_texts if name not in of_memories]
        for source, made in [("texts/up-from-slavery-1.txt", of_texts), ("models/fox-pro-12m/config.json", of_texts),
                             ("models/transformer-pro-12m/config.json", of_run),
                             ("models/mamba2-12m/config.json", of_memories),
                             ("models/gated-deltanet-1m/config.json", of_memories)]:
            with self.subTest(source):
                self.touch(self.checkout / "resources" / source)
                self.assertEqual(self.made(), made)
        self.touch(self.checkout / "build" / "foxscope")
        self.assertEqual(self.made(), everything)
        self.assertEqual(self.made(), [])

    def test_with_a_display_the_window_opens(self):
        self.dev("run", DISPLAY=":0")
        self.assertEqual(self.called("foxscope"), ["foxscope "])


if __name__ == "__main__":
    unittest.main()
