"""Who talks to whom: graphs in, sparse weighted schedules out; what they do to disagreement is computed.

It may know nothing of what is sent: no problem, no noise, no owner's records.
"""

from coterie.topologies.catalogue import TOPOLOGIES, build
from coterie.topologies.gossip import AGREEMENT, contraction, gossip_steps_for, messages_per_round
from coterie.topologies.mixing import IDENTITY, Mixer, aggregate, mixer
from coterie.topologies.residues import residue
from coterie.topologies.topology import Topology, check_gossip, check_push_sum, from_graphs
from coterie.topologies.weights import WEIGHTS, Edges

__all__ = [
    "AGREEMENT",
    "IDENTITY",
    "TOPOLOGIES",
    "WEIGHTS",
    "Edges",
    "Mixer",
    "Topology",
    "aggregate",
    "build",
    "check_gossip",
    "check_push_sum",
    "contraction",
    "from_graphs",
    "gossip_steps_for",
    "messages_per_round",
    "mixer",
    "residue",
]
