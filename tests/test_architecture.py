"""The rooms of the house: who may import what, beyond the layers that import-linter keeps."""

from __future__ import annotations

import ast
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import networkx as nx
import pytest

import coterie

HOME = Path(coterie.__file__).parent


def trees() -> dict[str, ast.Module]:
    """Every module of the package, by name."""
    found = {}
    for path in HOME.rglob("*.py"):
        parts = path.relative_to(HOME.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


TREES = trees()


def imports(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(module, name imported from it, what it is called here): every import of the package's own, types included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "coterie":
            yield from ((node.module or "", one.name, one.asname or one.name) for one in node.names)
        if isinstance(node, ast.Import):
            yield from (
                (one.name, "", one.asname or one.name)
                for one in node.names
                if one.name.startswith("coterie.")
            )


def module_of(module: str, name: str) -> str:
    whole = f"{module}.{name}"
    return whole if whole in TREES else module


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_doors(module: str, tree: ast.Module) -> list[str]:
    """Underscore names of other modules, and underscore modules of other packages, that a module uses."""
    found, called = [], {}
    for source, name, here in imports(tree):
        target = module_of(source, name)
        if target != source or not name:
            called[here] = target
        elif is_private(name):
            found.append(f"{source}.{name}")
        inner = [part for part in target.split(".") if is_private(part)]
        if inner and not module.startswith(target.partition(f".{inner[0]}")[0]):
            found.append(target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and isinstance(node.value, ast.Name):
            found += [f"{called[node.value.id]}.{node.attr}"] if node.value.id in called else []
    return found


def test_no_module_goes_through_anothers_private_door():
    doors = {module: found for module, tree in TREES.items() if (found := private_doors(module, tree))}
    assert doors == {}


def test_a_private_door_would_be_seen():
    source = "from coterie.topologies import mixing\nfrom coterie.cli._words import _x\nmixing._gather\n"
    assert private_doors("coterie.engines.steps", ast.parse(source)) == [
        "coterie.cli._words._x",
        "coterie.cli._words",
        "coterie.topologies.mixing._gather",
    ]
    assert (
        private_doors(
            "coterie.cli.run", ast.parse("from coterie import _check\nfrom coterie.cli import _words")
        )
        == []
    )


def cycles(edges: dict[str, set[str]]) -> list[set[str]]:
    graph = nx.DiGraph((one, other) for one, others in edges.items() for other in others - {one})
    return [part for part in nx.strongly_connected_components(graph) if len(part) > 1]


def without_types(tree: ast.Module) -> ast.Module:
    """The module without what stands under `if TYPE_CHECKING`."""
    kept = [n for n in tree.body if not (isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")]
    return ast.Module(kept, [])


def test_imports_make_no_cycle():
    """Not where a function imports when it is called, either; the package itself only names what it loads later."""
    rest = {module: tree for module, tree in TREES.items() if module != "coterie"}

    def edges(of) -> dict[str, set[str]]:
        return {
            module: {module_of(*one[:2]) for one in imports(of(tree))} - {"coterie"}
            for module, tree in rest.items()
        }

    assert cycles(edges(without_types)) == []
    assert cycles(edges(lambda tree: tree)) == []


def test_a_cycle_would_be_seen():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


PACKAGES = [one.name for one in pkgutil.walk_packages(coterie.__path__, "coterie.") if one.ispkg]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_it_is_and_the_large_ones_what_they_may_know(package):
    said = ast.get_docstring(TREES[package]) or ""
    assert len(said) > 20
    if package.count(".") == 1:
        assert "may know" in said.lower()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_of_a_package_hides_a_module_of_the_same_name(package):
    """`coterie.accounting.certify` is a function, and nothing else is called so."""
    loaded = import_module(package)
    modules = {one.name for one in pkgutil.iter_modules(loaded.__path__)}
    assert not modules & set(getattr(loaded, "__all__", ()))


def test_the_public_face_is_complete_typed_and_short():
    assert set(coterie.__all__) | {"__version__"} <= set(dir(coterie))
    assert {"Any", "import_module"} & set(dir(coterie)) == set()
    assert (HOME / "py.typed").is_file()
    assert '"py.typed"' in (HOME.parents[1] / "pyproject.toml").read_text()


def test_every_file_that_a_plausible_change_touches_is_there():
    root = HOME.parents[1]
    text = (root / "CONTRIBUTING.md").read_text().partition("## Adding things")[2]
    named = set(re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w/]+\.(?:py|md))`", text))
    places = (root, HOME, root / "docs", root / "papers")
    assert len(named) > 25
    assert [one for one in sorted(named) if not any((place / one).exists() for place in places)] == []


def test_help_comes_without_slow_libraries():
    slow = ("jax", "numpy", "scipy", "pandas", "dp_accounting", "matplotlib", "networkx")
    code = (
        f"import sys\nfrom coterie.cli import main\nsys.argv = ['coterie', '--help']\n"
        f"try:\n    main()\nexcept SystemExit:\n    pass\nsys.exit(len(set({slow!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
