"""Write the reference pages from the code: python scripts/reference.py [FOLDER, default docs/reference]

`commands.md`: every command with its options, as `--help` has them. `python.md`: every public name with its docstring.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTE = "Generated from the code by `python scripts/reference.py`; a test compares.\n"


def commands() -> str:
    """The command line."""
    import typer

    from coterie.cli import app

    parts = [f"# Command line\n\n{NOTE}\n`coterie COMMAND --help` says the same. `-h` is `--help`."]
    parts += [_command(name, one) for name, one in _walk("coterie", typer.main.get_command(app))]
    return "\n\n".join(parts) + "\n"


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", {})
    if not inner or command.invoke_without_command:
        yield name, command
    for word, one in inner.items():
        if not one.hidden:
            yield from _walk(f"{name} {word}", one)


def _command(name: str, command: Any) -> str:
    parameters = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    rows = [_row(one) for one in parameters if one.param_type_name == "option"]
    given = [_argument(one) for one in parameters if one.param_type_name == "argument"]
    usage = " ".join([name, *given, "[options]" if rows else ""]).strip()
    lines = [f"## {name}", "", f"```text\n{usage}\n```", "", _flat(command.help)]
    arguments = [
        f"* `{_name(one)}`: {_flat(one.help)}" for one in parameters if one.param_type_name == "argument"
    ]
    if arguments:
        lines += ["", *arguments]
    if rows:
        lines += ["", "| option | default | |", "|---|---|---|", *rows]
    return "\n".join(lines)


def _name(argument: Any) -> str:
    return argument.metavar or argument.name.upper()


def _argument(argument: Any) -> str:
    word = _name(argument) + ("…" if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def _row(option: Any) -> str:
    flags = ", ".join(f"`{word}`" for word in (*option.opts, *option.secondary_opts))
    plain = option.default is not None and not callable(option.default) and option.default not in ((), [], "")
    default = "" if option.is_flag or not plain else f"`{option.default}`"
    default = "required" if option.required else default
    return f"| {flags} | {default} | {_flat(option.help)} |"


def _flat(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def python() -> str:
    """The public names."""
    import coterie

    parts = [f"# Python\n\n{NOTE}\nEverything here is `coterie.NAME`; importing has no effect."]
    parts += [_entry(name, getattr(coterie, name)) for name in coterie.__all__ if not name.startswith("_")]
    return "\n\n".join(parts) + "\n"


def _entry(name: str, thing: Any) -> str:
    if not callable(thing):
        return f"## {name}\n\nThe names: {', '.join(f'`{one}`' for one in thing)}."
    lines = [
        f"## {name}",
        "",
        f"```python\n{_signature(name, thing)}\n```",
        "",
        _prose(inspect.getdoc(thing)),
    ]
    if inspect.isclass(thing):
        for member, method in vars(thing).items():
            if not member.startswith("_") and callable(getattr(thing, member)) and inspect.getdoc(method):
                lines += [
                    "",
                    f"**`{_signature(member, getattr(thing, member))}`**",
                    "",
                    _prose(inspect.getdoc(method)),
                ]
    return "\n".join(lines).rstrip()


def _signature(name: str, thing: Any) -> str:
    """Names and defaults; what each may be is in the words below it."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"{name}(...)"
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    plain = signature.replace(parameters=bare, return_annotation=signature.empty)
    return name + str(plain).replace("<factory>", "...")


def _prose(text: str | None) -> str:
    """A docstring as Markdown: its examples become code."""
    blocks = (text or "").split("\n\n")
    shown = [f"```python\n{one.strip()}\n```" if one.lstrip().startswith(">>>") else one for one in blocks]
    return "\n\n".join(shown)


def main() -> None:
    """Write both pages."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs/reference")
    (folder / "commands.md").write_text(commands(), "utf-8")
    (folder / "python.md").write_text(python(), "utf-8")


if __name__ == "__main__":
    main()
