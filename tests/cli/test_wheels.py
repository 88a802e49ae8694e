"""The package as a wheel: it has all that it needs, and nothing that lay about. `make wheel` tries the compiled one."""

import zipfile
from pathlib import Path

from scripts import wheels


def test_the_plain_wheel_is_whole_and_runs_in_an_environment_of_its_own(tmp_path):
    wheel = wheels.built(tmp_path, plain=True)
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("coterie/")}
    source = wheels.ROOT / "src"
    modules = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    assert {name for name in inside if name.endswith(".py")} == modules
    assert {
        "coterie/py.typed",
        "coterie/ui/static/index.html",
        "coterie/problems/embedded/census.npz",
    } <= inside
    for package in ("reports", "model"):
        templates = source / "coterie" / package / "templates"
        assert {str(path.relative_to(source)) for path in templates.iterdir()} <= inside
    assert not [name for name in inside if Path(name).suffix in (".so", ".pyc")]
    assert wheels.tried(wheel).startswith("coterie ")
