"""What a party does: the shapes of protocols, each a state machine. They may know releases and frames, and no clock.

rounds.py      an owner of a protocol of rounds, among its neighbours
setting.py     what such an owner is told of the run, and knows of its neighbours
exchange.py    the arithmetic of gossip over links that fail
voice.py       what an owner of rounds says in each step, and the public state that rounds leave it with
summing.py     what aggregators, and owners that talk to one, do alike
hub.py         the aggregator of a protocol whose messages meet in one sum, and an owner that talks to it
masked_hub.py  the same with messages under masks
masked_tree.py sums under masks between neighbours, up and down a tree (tree, chain, crowd)
member.py      an owner of masked sums, whoever calls the rolls (rolls)
walk.py        a model handed from owner to owner
held.py        what an owner of a walk has on its disk
peers.py       what it knows of the others, and how far it believes them
election.py    who may go on from where when the model is lost to view
visit.py       what an owner says at its visits: one message for each step, whatever crashes
learner.py     a learner that owners visit by their own clocks, and such an owner
tables.py      owners' tables, passed on to all: after training (evaluation) and before it (centring)
"""
