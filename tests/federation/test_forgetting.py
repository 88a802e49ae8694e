"""An owner that is lost for good: what those present decide, each on its own machine, and what follows from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_network_command import call, columns, found

from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import check, forgetting, party
from coterie.federation.collaboration import collaboration

__all__ = ["columns"]


@pytest.fixture
def net(tmp_path, columns):
    found(
        tmp_path / "net", columns, "--protocol", "push_sum", "--topology", "exponential", "--set", "rounds=3"
    )
    return tmp_path / "net"


def decided(net, name: str):
    own = party.read(net / "parties" / name)
    return forgetting.without(own, collaboration(agreements.read(own.agreement)))


def test_who_decided_differently_are_strangers_to_each_other(net):
    before = decided(net, "a")
    status, out, _ = call("network", "forget", net / "parties" / "a", "b")
    assert (status, "a, c must each run this command" in out) == (0, True)
    assert decided(net, "a").digest != decided(net, "c").digest == before.digest
    assert call("network", "forget", net / "parties" / "c", "b")[0] == 0
    assert decided(net, "a").digest == decided(net, "c").digest
    assert "b" not in decided(net, "a").peers("a")
    own = check.Check(party.read(net / "parties" / "a"), None, print, with_file=False)
    own.local({})
    assert "without:   b, as coterie network forget says here" in check.words(check.summary(own))
    assert decided(net, "a").agreement.run == before.agreement.run  # the same run: ledger and journal go on


def test_a_sender_keeps_what_it_would_have_sent(net):
    planned = collaboration(agreements.read(net / "agreement.json"))
    whole, rest = planned.view(0), replace(planned, forgotten=frozenset("b")).view(0)
    for before, after in zip(whole.hops, rest.hops, strict=True):
        assert after.keep == pytest.approx(before.keep + before.tells.get(1, 0.0))
        np.testing.assert_allclose(after.keep + sum(after.tells.values()), 1.0)
        assert 1 not in {*after.hears, *after.tells}


@pytest.mark.parametrize(
    ("owner", "why"), [("a", "is no other owner"), ("z", "is no other owner"), ("", "is no other owner")]
)
def test_nobody_forgets_itself_or_a_stranger(net, owner, why):
    status, _, err = call("network", "forget", net / "parties" / "a", owner)
    assert (status, why in err) == (2, True)


def test_the_last_neighbour_is_not_forgotten(net):
    own = party.read(net / "parties" / "a")
    forgetting.forget(own, "b")
    with pytest.raises(InputError, match="no neighbour left"):
        forgetting.forget(own, "c")
    assert decided(net, "a").forgotten == {"b"}


def test_protocols_that_go_on_by_themselves_forget_nobody(tmp_path, columns):
    found(tmp_path / "hub", columns, "--protocol", "weighted_erm", "--set", "steps=3")
    status, _, err = call("network", "forget", tmp_path / "hub" / "parties" / "a", "b")
    assert (status, "waits for no owner for good" in err) == (2, True)


def test_a_file_that_was_tampered_with_is_refused(net):
    own = party.read(net / "parties" / "a")
    forgetting.forget(own, "b")
    (path,) = own.folder.glob("forgotten-*.json")
    for content in ("[", '["a"]', '["z"]', "3"):
        path.write_text(content)
        with pytest.raises(InputError, match="coterie network forget"):
            decided(net, "a")
