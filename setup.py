"""Add the pages of docs/ to the package in a wheel, where `tinyweave docs` reads them; pyproject.toml says all else."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithPages(build_py):
    """Build the package, then copy the pages into its folder `docs`."""

    def run(self) -> None:
        """Copy the package and the pages into the build folder."""
        super().run()
        if not self.editable_mode:
            pages = Path(self.build_lib, "tinyweave", "docs")
            self.mkpath(str(pages))
            for page in Path("docs").glob("*.md"):
                self.copy_file(str(page), str(pages))


setup(cmdclass={"build_py": BuildWithPages})
