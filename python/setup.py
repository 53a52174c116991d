"""What pyproject.toml cannot say: a wheel that holds the program (./dev wheel), or one that knows its checkout."""

import os
import shutil
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

# A folder that wheel/program_tree.py made: the wheel then holds the program.
PROGRAM = os.environ.get("FOXSCOPE_WHEEL_PROGRAM")
CHECKOUT = Path(__file__).resolve().parents[1]


class BuildPackage(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "foxscope"
        if PROGRAM:
            shutil.copytree(PROGRAM, package / "_program")
        elif (CHECKOUT / "CMakeLists.txt").exists():
            (package / "_checkout.txt").write_text(str(CHECKOUT), encoding="utf-8")


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", "manylinux_2_36_x86_64") if PROGRAM else super().get_tag()


class Package(Distribution):
    def has_ext_modules(self) -> bool:
        return bool(PROGRAM)


# Nothing of another build is found there, which may have held the program.
build = tempfile.TemporaryDirectory(prefix="foxscope-build-")
setup(
    cmdclass={"build_py": BuildPackage, "bdist_wheel": Wheel}, distclass=Package, options={"build": {"build_base": build.name}}
)
