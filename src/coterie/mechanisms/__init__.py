"""What an owner does before a message leaves: sampling, clipping, noise. `ReleasePlan` ties them together.

It may know programs' types and relations; no loss, no model, no protocol.
"""

from coterie.mechanisms.distributions import Gaussian, Laplace, Noise, NoNoise
from coterie.mechanisms.plan import Masked, ReleasePlan, Shared
from coterie.mechanisms.sampling import FixedSize, FullBatch, OnePass, Passes, Poisson, Sampler

__all__ = [
    "FixedSize",
    "FullBatch",
    "Gaussian",
    "Laplace",
    "Masked",
    "NoNoise",
    "Noise",
    "OnePass",
    "Passes",
    "Poisson",
    "ReleasePlan",
    "Sampler",
    "Shared",
]
