"""The claims table in words: for a terminal's cells, and as a page of documentation with pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from coterie._rounding import upper
from coterie.experiments.claims import named
from coterie.experiments.claims.row import Row

COMMAND = "coterie certify --docs docs"
_SETTING = 54  # columns for what was set, where there are 100
_LEAST = 26  # with fewer than these for it, the numbers stand below
_NUMBERS = 43  # columns for the rest of a line

_HEAD = f"""<!-- Written by `{COMMAND}`. Do not edit: a test compares this page with what the command writes. -->
# What five papers claim, and what can be certified

**Claimed** is the paper's theorem at the setting; **certified** is an upper bound that an accountant proves for what
the published algorithm releases, for replacing one record of one owner ({{relation}}); δ is 0 where the bound is pure.
Why each claim fails, with a counterexample to run and the repair: [what-the-papers-claim.md](what-the-papers-claim.md).

![Claimed and certified ε of every row, logarithmic](images/claims.png)

`coterie certify` prints this table, `coterie certify --paper NAME --set key=value` the same for other settings, and
`--json` rows for a program. Settings are named as `--set` wants them.
"""


def claimed(row: Row) -> str:
    """The paper's ε, to the nearest digit."""
    epsilon = row.claim.epsilon
    if epsilon is None:
        return "none stated"
    return f"{epsilon:,.0f}" if epsilon >= 1000 else f"{epsilon:.3g}"


def certified(row: Row) -> str:
    """What is certified, rounded up as everywhere."""
    return upper(row.certificate.epsilon)


def setting(row: Row, keys: Collection[str] | None = None) -> str:
    """key=value, as `--set` takes them; all of them, or those in `keys`."""
    return " ".join(
        f"{key}={_value(value)}" for key, value in row.setting.items() if keys is None or key in keys
    )


def changed(row: Row) -> str:
    """What tells the row from others of its protocol: the settings that were published with several values."""
    several = [settings for family in named(row.protocol) for settings in family.published]
    varied = {key for key in row.setting if len({getattr(published, key) for published in several}) > 1}
    return setting(row, varied) or setting(row)


def _value(value: float | int | str | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def groups(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows of one guarantee together, under its heading."""
    return [(heading, list(alike)) for heading, alike in groupby(rows, _heading)]


def _heading(row: Row) -> str:
    return f"{row.paper} · {row.protocol} · {row.claim.source}"


def notes(rows: Iterable[Row]) -> list[str]:
    """What the theorems do not cover and what the certificates warn of, each once."""
    lines = [note for row in rows for note in (row.claim.note, *row.certificate.warnings) if note]
    return list(dict.fromkeys(lines))


def blocks(rows: list[Row], width: int) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """Lines for a terminal, each with the span of a certified ε that is above its claim."""
    for heading, group in groups(rows):
        shared = {key for key in group[0].setting if len({row.setting[key] for row in group}) == 1}
        shared = shared if len(group) > 1 else set()
        yield from ((line, None) for line in textwrap.wrap(heading, width))
        yield from _plain(setting(group[0], shared), width)
        room = min(_SETTING, width - _NUMBERS)
        if room >= _LEAST:
            yield f"  {'setting':<{room}}{'claimed':>12}{'certified':>11}  accountant", None
        views = dict.fromkeys(map(_certified_for, group))
        for (reason, view), alike in groupby(group, lambda row: (row.reason, _certified_for(row))):
            for row in alike:
                yield from (_line if room >= _LEAST else _stacked)(row, set(row.setting) - shared, room)
            yield from _plain(f"  why: {reason}", width)
            if len(views) > 1:
                yield from _plain(f"  certified for {view}", width)
        if len(views) == 1:
            yield from _plain(f"certified for {next(iter(views))}", width)
        for note in notes(group):
            yield from _plain(f"note: {note}", width)
        yield "", None


def _line(row: Row, keys: Collection[str], room: int) -> Iterator[tuple[str, tuple[int, int] | None]]:
    first, *rest = textwrap.wrap(setting(row, keys), room) or [""]
    lead = f"  {first:<{room}}{claimed(row):>12}{certified(row):>11}"
    yield f"{lead}  {row.certificate.accountant}", (len(lead) - 11, len(lead)) if row.broken else None
    yield from ((f"  {more}", None) for more in rest)


def _stacked(row: Row, keys: Collection[str], room: int) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """A row's lines for narrow terminals: what was set, and the numbers below it."""
    yield from _plain(setting(row, keys), room + _NUMBERS)
    lead = f"    claimed {claimed(row)}, certified "
    end = len(lead) + len(certified(row))
    yield f"{lead}{certified(row)}", (len(lead), end) if row.broken else None
    yield f"    by {row.certificate.accountant}", None


def _certified_for(row: Row) -> str:
    return f"{row.certificate.relation}, {row.certificate.view}, δ = {row.certificate.delta:.3g}"


def _plain(text: str, width: int) -> Iterator[tuple[str, None]]:
    """Indented by two and by as much as the text itself, also where it goes on below."""
    lead = " " * (2 + len(text) - len(text.lstrip()))
    lines = textwrap.wrap(text.strip(), width, initial_indent=lead, subsequent_indent=lead)
    yield from ((line, None) for line in lines)


def page(rows: list[Row]) -> str:
    """The table as Markdown."""
    relations = ", ".join(sorted({row.certificate.relation for row in rows}))
    parts = [_HEAD.format(relation=relations)]
    for heading, group in groups(rows):
        lines = [
            "| setting | claimed ε | certified ε | δ | accountant | view | why they differ |",
            "|---|---|---|---|---|---|---|",
            *(_markdown(row) for row in group),
            *(["", *(f"* {note}" for note in notes(group))] if notes(group) else []),
        ]
        parts.append(f"## {heading}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _markdown(row: Row) -> str:
    certificate = row.certificate
    bound = f"**{certified(row)}**" if row.broken else certified(row)
    cells = [
        f"`{setting(row)}`",
        claimed(row),
        bound,
        f"{row.certificate.delta:.3g}",
        certificate.accountant,
        certificate.view,
        row.reason,
    ]
    return "| " + " | ".join(cells) + " |"
