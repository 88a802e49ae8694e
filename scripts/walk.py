"""Which functions a run enters, from its arguments to report.html: python scripts/walk.py [--list] [OPTION …]

Counts each `def` of src/coterie, nested ones and methods too, that is entered while `coterie run --set rounds=5` (the
demonstration with few rounds; other options are passed on) does its work, until report.html is opened to be written.
Apart from that, and not in the number: what the summary for the terminal enters after it; lambdas and comprehensions;
methods that dataclasses and named tuples have generated; templates; whatever runs while a module is imported.

--list names all of them by module, how often each was entered, and from how many places. Those that were entered once,
or from one place alone, come with their caller.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import coterie

HOME = str(Path(coterie.__file__).parent)
FUNCTION = 0x1  # the flag of code whose names are fast locals: no module, no body of a class


class Walk:
    """What was entered, in order, and from where."""

    def __init__(self) -> None:
        self.entered: dict[CodeType, Counter[tuple[str, int]]] = {}
        self.to_page: int | None = None
        self.importing = threading.local()

    def see(self, frame: FrameType, event: str, argument: Any) -> None:
        """What `sys.setprofile` calls for each call and return."""
        code = frame.f_code
        if code.co_name == "<module>":
            depth = getattr(self.importing, "depth", 0)
            self.importing.depth = depth + (1 if event == "call" else -1 if event == "return" else 0)
        elif event == "call" and self.counts(code) and getattr(self.importing, "depth", 0) <= 0:
            self.entered.setdefault(code, Counter())[_caller(frame)] += 1

    def counts(self, code: CodeType) -> bool:
        """Whether it is a `def` of the package."""
        ours = code.co_filename.startswith(HOME) and code.co_filename.endswith(".py")
        return ours and bool(code.co_flags & FUNCTION) and not code.co_name.startswith("<")

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What `sys.addaudithook` calls: the page is about to be written."""
        if event == "open" and self.to_page is None:
            path, _, flags = arguments
            if str(path).endswith("report.html") and flags & (os.O_WRONLY | os.O_RDWR):
                self.to_page = len(self.entered)

    def __enter__(self) -> Walk:
        sys.addaudithook(self.hear)
        threading.setprofile(self.see)
        sys.setprofile(self.see)
        return self

    def __exit__(self, *failure: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def _caller(frame: FrameType) -> tuple[str, int]:
    """The nearest function of the package on the way here, and its line: libraries in between call for it."""
    above = frame.f_back
    while above is not None and not above.f_code.co_filename.startswith(HOME):
        above = above.f_back
    if above is None:
        return "the shell", 0
    return f"{_module(above.f_code)}.{above.f_code.co_qualname}", above.f_lineno


def _module(code: CodeType) -> str:
    return code.co_filename[len(HOME) + 1 : -len(".py")].replace("/", ".")


def words(walk: Walk, every: bool) -> str:
    """The numbers by package, and every function by module where asked for."""
    on_the_way = list(walk.entered.items())[: walk.to_page]
    modules: dict[str, list[tuple[CodeType, Counter[tuple[str, int]]]]] = defaultdict(list)
    for code, places in on_the_way:
        modules[_module(code)].append((code, places))
    packages = Counter(_module(code).split(".")[0] for code, _ in on_the_way)
    once = sum(places.total() == 1 for _, places in on_the_way)
    single = sum(len(places) == 1 for _, places in on_the_way)
    lines = [f"{name:<16} {number:>4}" for name, number in packages.most_common()]
    if every:
        for module in sorted(modules):
            lines.append(f"\n{module}: {len(modules[module])}")
            lines += [_line(code, places) for code, places in modules[module]]
    after = len(walk.entered) - len(on_the_way)
    lines.append(f"\n{len(on_the_way)} functions to report.html, {after} more to the end")
    lines.append(f"{once} of them entered once, {single} from one place")
    return "\n".join(lines)


def _line(code: CodeType, places: Counter[tuple[str, int]]) -> str:
    lines = max(number for _, _, number in code.co_lines() if number) - code.co_firstlineno + 1
    head = f"  {code.co_qualname} ({lines} lines): {places.total()} from {len(places)}"
    if len(places) > 1:
        return head
    where, line = next(iter(places))
    return f"{head}, {where}:{line}"


def main() -> None:
    """Run the command under watch, in a folder that goes with it."""
    options, every = [option for option in sys.argv[1:] if option != "--list"], "--list" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        from coterie.cli import main as command

        sys.argv = ["coterie", "run", "--set", "rounds=5", "--out", f"{folder}/out", *options]
        with Walk() as walk:
            try:
                command()
            except SystemExit as end:
                if end.code:
                    raise
    print(words(walk, every))


if __name__ == "__main__":
    main()
