"""Add the pages of docs/ and the example network to the package in a wheel, where `tinyweave docs` reads them.

pyproject.toml has all other settings.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("docs/*.md", "examples/keywords/digits.*")  # not inputs.npy, which has another licence


class BuildWithPages(build_py):
    """Build the package, then copy the pages and the example into its folders `docs` and `examples`."""

    def run(self) -> None:
        """Copy the package, the pages and the example into the build folder."""
        super().run()
        if not self.editable_mode:
            for path in (path for pattern in SHIPPED for path in Path().glob(pattern)):
                target = Path(self.build_lib, "tinyweave", path)
                self.mkpath(str(target.parent))
                self.copy_file(str(path), str(target))


setup(cmdclass={"build_py": BuildWithPages})
