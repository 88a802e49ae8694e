"""Reproductions as files: JSON for machines, Markdown and pictures for people, and the page of all of them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.errors import InputError
from papers.reproductions import NAMES, answers
from papers.reproductions.figures import Picture, Point, draw, fits, markdown, orderings, privacy, values
from papers.reproductions.html import Shown, page
from papers.reproductions.measures import MEASURES
from papers.reproductions.runner import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")  # of Markdown


def name_of(found: dict[str, Any]) -> str:
    """What a reproduction's files are called."""
    return f"{found['paper']}-quick" if found["quick"] else found["paper"]


def write(found: dict[str, Any], folder: Path) -> None:
    """NAME.json, NAME.md, NAME.html and a picture for each view, each moved to its place whole."""
    name = name_of(found)
    text = json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False)
    _put(folder / f"{name}.json", text.encode() + b"\n")
    _put(folder / f"{name}.md", "\n".join(section(found, f"{name}-")).encode() + b"\n")
    _put(folder / f"{name}.html", html(found).encode())
    for view, figure in figures(found).items():
        _put(folder / f"{name}-{view}.png", _png(figure))


def write_docs(source: Path, docs: Path) -> list[str]:
    """results.md, a page for each paper and their pictures, from every reproduction in `source`.

    The full one where both are there.
    """
    from papers import scale  # brings the engines

    both = [_read(source / f"{name}{tail}.json") for name in NAMES for tail in ("", "-quick")]
    found = list({one["paper"]: one for one in reversed(both) if one}.values())[::-1]
    if not found:
        raise InputError(f"out={str(source)!r}: holds no reproduction. Run `coterie reproduce NAME` first.")
    papers = [_paper(one) for one in found]
    lines = answers.summary(papers)
    absent = [name for name in NAMES if name not in {one["paper"] for one in found}]
    if absent:
        lines.append(f"Not run yet: {', '.join(absent)}.\n")
    for one, paper in zip(found, papers):
        _put(docs / paper.folder_page, answers.page(paper).encode())
        for view, figure in figures(one).items():
            _put(docs / "images" / f"results-{one['paper']}-{view}.png", _png(figure))
    lines += scale.kept_section()
    _put(docs / "results.md", "\n".join(lines).encode())
    return [name_of(one) for one in found]


def _paper(found: dict[str, Any]) -> answers.Paper:
    """The reproduction as the documents show it."""
    judged = _judged(found)
    ordered = [(one["words"], one["verdict"]) for one in found["orderings"]]
    answer = (
        answers.counted(ordered) if ordered else [line for one in judged.values() for line in markdown(one)]
    )
    return answers.Paper(
        name=found["paper"],
        title=found["title"],
        lead=_lead(found),
        how=_how(found),
        notes=found["notes"],
        answer=answer,
        parts=parts(found, f"images/results-{found['paper']}-"),
    )


def section(found: dict[str, Any], pictures: str) -> list[str]:
    """A paper's views in Markdown."""
    lines = [f"## {found['title']}", "", _how(found), "", *(f"* {note}" for note in found["notes"]), ""]
    for part in parts(found, pictures):
        lines += [f"### {part.title}", "", *part.lines, ""]
    return lines


def parts(found: dict[str, Any], pictures: str) -> list[answers.Part]:
    """Every table and figure."""
    made = [answers.Part(title, markdown(judged)) for title, judged in _judged(found).items()]
    shown: list[str] = []
    for one in _shown(found):
        cost, lines = markdown(one.costs), [one.told, ""]
        if not one.picture.dots:
            lines += [*markdown(one.values), ""]
            if cost != shown:  # figures of one sweep share their costs
                lines += [*cost, ""]
            shown = cost
        made.append(
            answers.Part(one.picture.title, [*lines, f"![{one.picture.title}]({pictures}{one.name}.png)"])
        )
    return made


def html(found: dict[str, Any]) -> str:
    """The same as one page that needs nothing beside it."""
    facts = {
        "command": f"coterie reproduce {found['paper']}{' --quick' * found['quick']}",
        "runs": f"{found['cells']:,}",
        "code": f"SHA-256 {found['code']}… of the source that results depend on",
        "versions": ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
    }
    facts |= {f"SHA-256 of {file}": digest for file, digest in found["data"].items()}
    notes = [_LINK.sub(r"\1", note) for note in found["notes"]]  # the page stands alone
    return page(found["title"], _lead(found), notes, _judged(found), _shown(found), facts)


def _how(found: dict[str, Any]) -> str:
    command = f"coterie reproduce {found['paper']}{' --quick' * found['quick']}"
    return f"`{command}`, {found['cells']} runs, code {found['code']}."


def _lead(found: dict[str, Any]) -> str:
    """The result in a sentence."""
    verdicts = [one["verdict"] for one in found["orderings"]]
    counts = {word: verdicts.count(word) for word in ("holds", "does not hold", "undecided")}
    told = f"{found['cells']:,} runs, the paper's settings beside certified ones."
    if errors := [one["error"] for one in found["fits"]]:
        told += (
            f" The published form of the cost of privacy, fitted on ours, is off by {min(errors):.0%} to "
            f"{max(errors):.0%} in the median."
        )
    if not verdicts:
        return told
    return told + (
        f" Of {len(verdicts)} comparisons that the paper orders, {counts['holds']} come out as published, "
        f"{counts['does not hold']} the other way round; undecided: {counts['undecided']}."
    )


def _judged(found: dict[str, Any]) -> dict[str, Any]:
    """Orderings and fits as tables, where there are any."""
    forms = {name: measure.form for name, measure in MEASURES.items()}
    tables = {}
    if found["orderings"]:
        tables["Published orderings, in our runs"] = orderings(found["orderings"], forms)
    if found["fits"]:
        tables["Cost of privacy: (c̄₁/n) √Σ ε⁻² + (c̄₂/n²) Σ ε⁻²"] = fits(found["fits"])
    return tables


def _shown(found: dict[str, Any]) -> list[Shown]:
    return [
        Shown(
            name=view["name"],
            told=f"{view['data']}. {_seeds(points)} {view['said']}".strip(),
            points=points,
            picture=(picture := _picture(view)),
            values=values(points, picture),
            costs=privacy(points, picture),
        )
        for view in found["views"]
        if (points := _points(view))
    ]


def figures(found: dict[str, Any]) -> dict[str, Figure]:
    """A picture of each view that has runs."""
    return {one.name: draw(one.points, one.picture) for one in _shown(found)}


def _seeds(points: list[Point]) -> str:
    counts = sorted({point.seeds for point in points})
    most = counts[-1]
    return f"{most} seed{'s' * (most > 1)}." if len(counts) == 1 else f"{counts[0]} to {most} seeds."


def _picture(view: dict[str, Any]) -> Picture:
    measure = MEASURES[view["measure"]]
    dots = view["measure"] == "clock"
    return Picture(view["title"], view["data"], view["x"], measure.label, view["log"], measure.form, dots)


def _points(view: dict[str, Any]) -> list[Point]:
    return [
        Point(
            series=one["series"],
            x=one["x"],
            mean=number(one["mean"]),
            spread=number(one["spread"]),
            seeds=one["seeds"],
            claimed=one["claimed"],
            certified=number(one["certified"]),
            published=one["published"],
            curve=np.array([[float(value) for value in one[key]] for key in ("step", "curve", "low", "high")])
            if "curve" in one
            else None,
        )
        for one in view["points"]
    ]


def _read(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: is not a reproduction's JSON. Run `coterie reproduce` again.") from error


def _png(figure: Figure) -> bytes:
    import io

    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _put(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        staging = file.with_name(f".{file.name}-{os.getpid()}")
        staging.write_bytes(content)
        staging.replace(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror}). Name another folder.") from error
