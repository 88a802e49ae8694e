"""What the result of a cell depends on, beside the cell: source, data and libraries, as one digest.

The source is what imports lead to from the two modules that compute a cell, from its protocol and from the loader of
its data; imports inside functions count, packages on the way, and C files named after a module. Comments, docstrings
and layout do not count, nor what only type checkers read, nor other protocols.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import coterie
import papers
from coterie.problems.datasets import DATASETS
from coterie.protocols import PROTOCOLS

REGISTRY = "coterie.protocols"  # imports every protocol, only to list it
Folders = Mapping[str, Path]  # of our packages, by their names

OURS: Folders = {
    package.__name__: Path(package.__file__).parent for package in (coterie, papers) if package.__file__
}
ROOTS = ("papers.reproductions.cases", "papers.reproductions.measure")
DATA, EMBEDDED = "coterie.problems.datasets", "problems/embedded"
_UNNAMED = ("jaxlib",)  # jax is compiled there, and nobody imports it by name


@cache
def version(protocol: str, data: str) -> str:
    """The digest for cells of a protocol on a data set, both by name."""
    return digest(source(protocol, data, OURS), libraries(), data)


def digest(modules: Mapping[str, Path], versions: Mapping[str, str], data: str) -> str:
    """Of the modules' code, the C beside it, the libraries they import, and the records."""
    words, outside = _records(data, modules), set(_UNNAMED)
    for name, file in sorted(modules.items()):
        module = _read(file, file.stat().st_mtime_ns)
        words += [f"{name} {module.digest}", *map(_hashed, _compiled(file))]
        outside |= {imported.partition(".")[0] for imported in module.imports}
    words += [f"{name} {versions[name]}" for name in sorted(outside & set(versions) - set(OURS))]
    words.append(f"python {sys.version_info.major}.{sys.version_info.minor}")
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def source(protocol: str, data: str, folders: Folders) -> dict[str, Path]:
    """Every module of ours that such a cell imports, directly or not, with its file."""
    listed = {row.build.__module__ for row in PROTOCOLS.values()}
    waiting = [*ROOTS, PROTOCOLS[protocol].build.__module__, _loader(data)]
    found: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        file = _file(name, folders)
        if file is None or name in found:
            continue
        found[name] = file
        imports = _read(file, file.stat().st_mtime_ns).imports
        waiting += [*_packages(name), *(imports - listed if name == REGISTRY else imports)]
    return found


@cache
def libraries() -> dict[str, str]:
    """By name to import: which distributions provide it, in which versions."""
    provided = metadata.packages_distributions()
    return {
        name: " ".join(sorted({f"{own} {metadata.version(own)}" for own in owners}))
        for name, owners in provided.items()
    }


class _Module(NamedTuple):
    digest: str
    imports: frozenset[str]  # dotted; of `from a import b` both a and a.b, of which one may be no module


@cache
def _read(file: Path, changed: int) -> _Module:
    """A module's code. `changed` is when its file was: a file that changed is read again."""
    del changed
    tree = _bare(ast.parse(file.read_text(encoding="utf-8")))
    return _Module(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), frozenset(_imports(tree)))


def _bare(tree: ast.Module) -> ast.Module:
    """Without docstrings, and without what only type checkers read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
            node.body = [part for part in node.body if not _for_checkers(part)]
    return tree


def _for_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file(name: str, folders: Folders) -> Path | None:
    """Where a module of ours is; None for others' and for names that are none."""
    top, *rest = name.split(".")
    if top not in folders:
        return None
    place = folders[top].joinpath(*rest)
    for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
        if file.is_file():
            return file
    return None


def _packages(name: str) -> Iterator[str]:
    """Those that importing the module runs first."""
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts)))


def _compiled(file: Path) -> list[Path]:
    """C that a module loads is named after it."""
    return sorted(beside for beside in file.parent.glob(f"{file.stem}*") if beside.suffix in (".c", ".h"))


def _loader(data: str) -> str:
    """The module that reads a data set, which its row names and nobody imports."""
    return f"{DATA}.{str(DATASETS[data].loader).partition('.')[0]}"


def _records(data: str, modules: Mapping[str, Path]) -> list[str]:
    """A data set without files of its own is within the package."""
    if files := DATASETS[data].files:
        return [f"{file.path} {file.sha256}" for file in files]
    return [_hashed(file) for file in sorted((modules["coterie"].parent / EMBEDDED).glob("*.npz"))]


def _hashed(file: Path) -> str:
    return f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}"
