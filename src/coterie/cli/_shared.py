"""Options that several commands have: one type, one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
BaseRate = Annotated[float | None, typer.Option(help="Share of the rarer class, where it is publicly known.")]
Calibration = Annotated[str | None, typer.Option(help="certified, paper or noiseless")]
Columns = Annotated[str | None, typer.Option(help="Columns file (TOML): public classes, ranges, categories.")]
Data = Annotated[str | None, typer.Option(help="A data set's name, or a CSV, Parquet or NPZ file.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of data sets; default COTERIE_DATA.")]
Delta = Annotated[float | None, typer.Option(help="δ of every owner's budget.")]
Evaluate = Annotated[
    float | None, typer.Option(help="Share of the budget for an evaluation to publish, such as 0.05.")
]
EvaluateBy = Annotated[str | None, typer.Option(help="Evaluate groups by a declared column's values, too.")]
Features = Annotated[str | None, typer.Option(help="Cost-free feature maps, such as scale,ball.")]
GossipSteps = Annotated[int | None, typer.Option(help="Mixing steps for each release.")]
HoldOut = Annotated[
    float | None,
    typer.Option(help="Share of every owner's rows, or units, kept out of training, to evaluate on."),
]
Latest = Annotated[
    str | None, typer.Option(help="Date column: keep a unit's latest records; default: at random.")
]
Loss = Annotated[str | None, typer.Option(help="logistic, softmax, one_vs_all, squared, hinge, huber")]
Microbatch = Annotated[
    int | None, typer.Option(help="Records of an owner worked on at once: memory and speed only.")
]
ModelFile = Annotated[Path, typer.Argument(help="A model's file, a run's folder or a node's result.")]
OwnerColumn = Annotated[str | None, typer.Option(help="Column of your file that says whose a row is.")]
Owners = Annotated[int | None, typer.Option(help="How many owners share the data.")]
OwnersPerPerson = Annotated[
    int | None,
    typer.Option(help="Public: how many owners may know one person; budgets hold for it. Default 1."),
]
Partition = Annotated[
    str | None, typer.Option(help="iid, column, dirichlet:0.3, two_groups:4, random_sizes:50")
]
Protocol = Annotated[str | None, typer.Option(help="Which protocol, such as dual_averaging.")]
RecordsPerUnit = Annotated[
    int | None, typer.Option(help="Public: the most records of a unit that are kept; default 20.")
]
Centre = Annotated[
    float | None,
    typer.Option(help="Share of the budget for the mean of all features, taken off before training."),
]
Select = Annotated[
    float | None, typer.Option(help="Share of the budget for choosing among models of the same releases.")
]
Set = Annotated[list[str] | None, typer.Option("--set", help="A protocol setting, KEY=VALUE; repeat.")]
Target = Annotated[str | None, typer.Option(help="Column of your file that is to be learnt.")]
Topology = Annotated[str | None, typer.Option(help="ring, torus, star, complete, …, or an edge list.")]
Unit = Annotated[
    str | None, typer.Option(help="Whom to protect: record, column:NAME (a person's records), or owner.")
]
UnitMean = Annotated[
    bool | None,
    typer.Option("--unit-mean", help="Average a unit's gradients before clipping; default: add."),
]
