"""What the charged tables beside training will be able to tell, from public numbers, and which shares suit them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from coterie.accounting.gaussian import noise_for
from coterie.evaluation import DEFAULT_SHARE
from coterie.evaluation.budget import for_training, recommended
from coterie.evaluation.estimate import half_width
from coterie.evaluation.selection import CLIP, SURE
from coterie.evaluation.sheet import Sheet
from coterie.protocols import Task

SELECT = 0.03  # a share for choosing a model, for whom it is worth it
CENTRE = 0.05  # a share for the mean of the features
# A longer noise on that mean, beside records of length one, gains nothing on average: seen on one half of 120 tables,
# and judged by the other (`papers.centring`, docs/radius.md).
SHORT = 0.5
LIKELY = 0.8  # an accuracy, where nobody knows it
LIKELY_ERROR = 0.1  # a mean absolute error, in halves of the target's range


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """The half interval (95 %) of accuracy, or of a quantity's absolute error in halves of its range."""

    metric: str
    share: float
    half_width: float
    recommended: float  # the share at which noise adds as much as sampling, between 0.01 and 0.2
    recommended_half_width: float
    sampling_half_width: float  # were there no noise at all
    select: float  # share that is recommended for choosing a model: none, as it gains nothing on average
    select_share: float  # if it is wanted all the same
    select_tells: float  # the least difference of mean losses, within [0, 1], that a choice can then rest on
    centre: (
        float  # share that is recommended for the mean of the features: of classes, where its noise is short
    )
    centre_share: float  # if it is wanted all the same
    centre_noise: float  # how long the noise on the mean then is, beside a record's features


def foreseen(task: Task, classes: int, share: float = 0.0) -> Foreseen:
    """The forecast for `share`, 0 standing for the default, with Gaussian noise of that share of every budget."""
    share = share or DEFAULT_SHARE
    kind = "regression" if classes == 1 else "binary" if classes == 2 else "multiclass"
    sheet = Sheet(kind, task.problem.loss.name, 0 if classes == 1 else classes, True)
    rows, likely = sum(task.sizes), LIKELY_ERROR if classes == 1 else LIKELY
    # of a share of 1
    whole = sum((2 * noise_for(budget, task.delta) * sheet.reach) ** 2 for budget in task.epsilon)
    best = recommended(sheet, whole / share, share, rows, likely)

    def width(part: float) -> float:
        return half_width(sheet, whole / part, rows, likely)

    return Foreseen(
        metric="mae" if classes == 1 else "accuracy",
        share=share,
        half_width=width(share),
        recommended=best,
        recommended_half_width=width(best),
        sampling_half_width=width(math.inf),
        select=0.0,
        select_share=SELECT,
        select_tells=tells(task, SELECT),
        centre=CENTRE if classes > 1 and centre_noise(task, CENTRE) <= SHORT else 0.0,
        centre_share=CENTRE,
        centre_noise=centre_noise(task, CENTRE),
    )


def centre_noise(task: Task, share: float) -> float:
    """How long the noise on the mean of all features is, beside records of length one."""
    features = task.dimension // task.problem.loss.outputs
    variance = sum((2 * noise_for(budget, task.delta)) ** 2 for budget in task.epsilon) / share
    return math.sqrt(features * variance) / sum(task.sizes)


def tells(task: Task, share: float) -> float:
    """The least difference between two models' mean losses that a charged choice can rest on."""
    noise = sum((2 * noise_for(budget, task.delta) * CLIP) ** 2 for budget in task.epsilon) / share
    return SURE * math.sqrt(noise) / sum(task.sizes)


def after(task: Task, share: float) -> Task:
    """The task that is left for training."""
    return replace(task, epsilon=tuple(for_training(budget, task.delta, share) for budget in task.epsilon))
