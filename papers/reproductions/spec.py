"""What a reproduction is: cells (single runs, as plain values) and the published views that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, kw_only=True)
class Data:
    """Records, who owns them, and what is learnt from them."""

    name: str  # a known data set
    owners: int
    rows: int | None = None  # of the training rows, drawn without regard to content; None: all
    test: int | None = None  # of the test rows; None: all
    partition: str = (
        "iid"  # as on the command line; or "blocks", or "drawn:N" (N records each, records shared)
    )
    deal: int = 0  # seed of rows and partition
    features: str = "ball"
    low: float = -1.0  # where "scale" begins
    intercept: float | None = 1.0  # that "ball" appends
    surface: bool = False  # "ball" scales short rows up, too
    public: int = (
        0  # how many test rows, the last ones, are declared public: pca and bounds are fitted on them
    )
    spread: bool = (
        False  # "pca" takes columns in units of their spread in the public rows, and does not centre
    )
    constant: bool = False  # append a constant column after the features
    centred: bool = False  # targets of a regression are counted from the mean of the public rows'
    loss: str = "logistic"
    penalty: str = "l2"
    strength: float = 0.0
    hidden: int = 0  # 0: a linear model


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run: everything that its result depends on, beside the code."""

    data: Data
    protocol: str
    calibration: str
    epsilon: float
    delta: float
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    clip_norm: float | None = (
        None  # None: the bound of one record's gradient, or the public rows' where it has none
    )
    topology: str = "complete"
    gossip: int | None = None  # None: as many steps as bring disagreement down to a tenth
    looks: int = 1  # how often the metric is taken, at least
    clocks: bool = False  # also who came when: public
    objective: bool = False  # also the training objective, its slope and its optimum: oracles


class Entry(NamedTuple):
    """A cell's place in a view."""

    view: str
    series: str
    x: float
    cell: Cell


class Fit(NamedTuple):
    """The published bound (c̄₁/n) √Σ ε⁻² + (c̄₂/n²) Σ ε⁻², fitted on a series' cost over the same run without noise.

    `over`: a view over ε with N owners; `published`: the paper's two constants. Budgets below `least` are left out:
    there the edge of Θ stops the noise, and its cost no longer grows with ε⁻².
    """

    words: str
    over: str
    series: str
    silent: str
    owners: int
    published: tuple[float, float]
    least: float = 0.0


class View(NamedTuple):
    """One published table or figure."""

    title: str
    data: str  # what was used, and what it stands for
    measure: str  # a key of `measures.MEASURES`
    x: str = "ε"  # "iteration": curves over the run; else what the entries' x is
    log: bool = False
    published: Mapping[tuple[str, float], float] = {}  # by (series, x), in the measure's unit
    said: str = ""  # what was published in words or pictures only


class Ordering(NamedTuple):
    """What was published to be better than what: `above` than `below` at every x of a view.

    `grows`: how far it is better grows from the first x to the last; without `below`, `above` itself gets better.
    """

    words: str
    view: str
    above: str
    below: str = ""
    grows: bool = False


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper's spec."""

    name: str
    title: str
    views: Mapping[str, View]
    entries: Callable[[bool], list[Entry]]  # (quick)
    notes: tuple[str, ...]  # departures, substitutes, what is left out
    orderings: tuple[Ordering, ...] = ()
    fits: tuple[Fit, ...] = ()
