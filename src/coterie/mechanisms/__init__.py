"""What an owner does before a message leaves: sampling, clipping, noise. `ReleasePlan` ties them together."""

from coterie.mechanisms.plan import ReleasePlan
from coterie.mechanisms.sampling import FixedSize, FullBatch, OnePass, Passes, Poisson, Sampler

__all__ = ["FixedSize", "FullBatch", "OnePass", "Passes", "Poisson", "ReleasePlan", "Sampler"]
