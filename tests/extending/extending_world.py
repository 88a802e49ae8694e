"""The package of docs/extending.md as an installed distribution: its modules, and the folder that pip would write."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import coterie
from coterie import plugins

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
EXAMPLE = Path(__file__).parents[2] / "examples" / "gradient_tracking.py"


def blocks(language: str) -> list[str]:
    """What the page shows in that language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


def install(folder: Path) -> Path:
    """Write the page's package into a folder for Python's path."""
    for text in blocks("python"):
        place = folder / re.match(r"# (\S+)\n", text)[1]  # type: ignore[index]
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    project = tomllib.loads(blocks("toml")[0])["project"]
    return write_info(folder, project["name"], project["version"], project["entry-points"])


def write_info(folder: Path, name: str, version: str, entries: dict[str, dict[str, str]]) -> Path:
    """What pip writes about an installed distribution."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in named.items())
        for group, named in entries.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@contextmanager
def gradient_tracking() -> Iterator[ModuleType]:
    """examples/gradient_tracking.py under its name; forgotten afterwards."""
    spec = importlib.util.spec_from_file_location("gradient_tracking", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    coterie.register("protocol", "gradient_tracking", module)
    yield module
    plugins.KINDS["protocol"]._others.pop("gradient_tracking")
