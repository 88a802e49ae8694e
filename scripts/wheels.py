"""Build the package's wheels and try each in an environment of its own: python scripts/wheels.py FOLDER [AUDITWHEEL]

Two: `py3-none-any`, which runs anywhere and trains some models more slowly, and one with the compiled function for this
machine's Python. That one is named for the oldest systems that it runs on as `auditwheel`, if given, finds them in the
symbols that it needs; without, it keeps the name `linux_x86_64`, which no index takes, because nobody looked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
_PLATFORM = re.compile(r'platform\s+tag:\s+"(manylinux_\w+)"')


def built(folder: Path, *, plain: bool) -> Path:
    """A new wheel in `folder`, of a copy of the sources: what an earlier build left beside them must not get in."""
    with tempfile.TemporaryDirectory() as copy:
        for name in _FILES:
            shutil.copy(ROOT / name, copy)
        left = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", Path(copy, "src"), ignore=left)
        made = Path(copy, "made")
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", made]
        _run([sys.executable, "-m", "pip", "wheel", *options, copy], COTERIE_PLAIN="1" if plain else "")
        (wheel,) = made.iterdir()
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, folder / wheel.name))


def named(wheel: Path, auditwheel: Path) -> Path:
    """The wheel under the name of the oldest systems that have all that it needs."""
    found = _PLATFORM.search(_run([auditwheel, "show", wheel]))
    if found is None:
        raise SystemExit(f"{wheel.name}: auditwheel names no manylinux platform. Build it on another system.")
    tags = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", found[1], wheel]
    return wheel.with_name(_run(tags).split()[-1])


def tried(wheel: Path) -> str:
    """What `coterie --version` says where this wheel is installed; a tiny run must end well there, too.

    Dependencies are those of this environment, and its own coterie is not looked at: the wheel comes first.
    """
    with tempfile.TemporaryDirectory() as place:
        _run([sys.executable, "-m", "venv", "--without-pip", place])
        fresh = Path(place, "bin", "python")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", fresh]
        _run([*pip, "install", "--no-deps", "--no-index", wheel])
        (packages,) = Path(place).glob("lib/python*/site-packages")
        (packages / "dependencies.pth").write_text(
            "\n".join(one for one in sys.path if one.endswith("-packages"))
        )
        coterie = Path(place, "bin", "coterie")
        where = _run([fresh, "-c", "import coterie; print(coterie.__file__)"])
        assert Path(where.strip()).is_relative_to(packages), where
        loaded = _run([fresh, "-c", "from coterie.mechanisms import onepass; print(onepass.available())"])
        assert (loaded.strip() == "None") is wheel.name.endswith("-none-any.whl"), f"{wheel.name}: {loaded}"
        _run([coterie, "run", "--set", "rounds=2", "--out", Path(place, "out")])
        return _run([coterie, "--version"]).strip()


def _run(command: list[str | Path], **environment: str) -> str:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | environment
    done = subprocess.run(
        command, env=kept, cwd=tempfile.gettempdir(), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def main(folder: Path, auditwheel: Path | None = None) -> None:
    """Both wheels."""
    for plain in (True, False):
        wheel = built(folder.absolute(), plain=plain)
        wheel = wheel if plain or auditwheel is None else named(wheel, auditwheel.absolute())
        print(f"{wheel}: {tried(wheel)}, a run of two rounds ended well", flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
