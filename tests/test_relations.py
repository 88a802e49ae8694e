"""Relations as values: what follows from one is asked of it, and its name is compared nowhere."""

from __future__ import annotations

import copy
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import dp_accounting as dp
import numpy as np
import pytest
import worlds

import coterie
from coterie.accounting import calibrate, certify
from coterie.audit.neighbours import AuditWorld, worst_case
from coterie.errors import InputError
from coterie.protocols.task import full_batch_plan
from coterie.relations import ADD_OR_REMOVE_ONE, RELATIONS, REPLACE_ONE, named

BOTH = [REPLACE_ONE, ADD_OR_REMOVE_ONE]


@pytest.mark.parametrize("relation", BOTH)
def test_a_relation_is_its_name_to_whoever_prints_stores_or_copies_it(relation):
    assert json.loads(json.dumps({"relation": relation})) == {"relation": str(relation)}
    assert repr(relation) == repr(str(relation))
    assert copy.deepcopy(relation) is relation
    assert pickle.loads(pickle.dumps(relation)) is relation
    assert named(str(relation)) is relation


def test_an_unknown_one_is_one_line():
    with pytest.raises(
        InputError, match=r"^relation='replace-one': unknown\. Choose one of: [^\n]*'replace_one'\?$"
    ):
        named("replace-one")
    plan = full_batch_plan(worlds.task((5, 5), 2), 1)
    with pytest.raises(InputError, match="relation='swap': unknown"):
        replace(plan, relation="swap")


@pytest.mark.parametrize("relation", BOTH)
def test_the_reach_is_what_a_clipped_sum_really_moves_by_at_most(relation):
    """Explicit neighbours: sums of vectors of norm at most 1, one replaced by its opposite, or left out."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 5, 3))
    rows /= np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1.0)
    rows[0, 0] = [1.0, 0.0, 0.0]
    other = rows[:, 1:].sum(1) - (rows[:, 0] if relation.sizes_are_public else 0.0)
    moved = np.linalg.norm(rows.sum(1) - other, axis=1)
    assert moved.max() == pytest.approx(relation.reach)


@pytest.mark.parametrize("relation", BOTH)
def test_certificates_and_calibration_follow_from_the_reach(relation):
    """The Gaussian mechanism on a sum that moves by `reach` clip norms is that of a multiplier so much smaller."""
    from dp_accounting import get_epsilon_gaussian

    found = certify(dp.GaussianDpEvent(3.0), delta=1e-5, relation=relation)
    assert found.epsilon == pytest.approx(get_epsilon_gaussian(3.0 / relation.reach, 1e-5), rel=1e-9)
    multiplier = calibrate(dp.GaussianDpEvent, epsilon=found.epsilon, delta=1e-5, relation=relation)
    assert multiplier == pytest.approx(3.0, rel=1e-6)
    assert relation.in_dp_accounting.name == relation.upper()


@pytest.mark.parametrize("relation", BOTH)
def test_an_audit_builds_the_relations_own_neighbours(relation):
    options = {"relation": str(relation)}
    setting = worst_case("weighted_erm", AuditWorld(epsilon=2.0), options)
    without, with_ = (sum(side.counts.tolist()) for side in setting.neighbours[:2])
    assert with_ - without == (0 if relation.sizes_are_public else 1)
    assert (setting.without is None) == relation.sizes_are_public


def test_nothing_in_the_tree_compares_the_names_of_relations():
    """They stand where a relation is defined, where a user writes them, and in examples and words."""
    home = Path(coterie.__file__).parent
    quoted = re.compile("|".join(f"""["']{name}["']""" for name in RELATIONS))
    naming = {
        str(path.relative_to(home))
        for path in home.rglob("*.py")
        if any(quoted.search(line) and ">>>" not in line for line in path.read_text().splitlines())
    }
    assert naming <= {"relations.py", "protocols/weighted_erm.py"}  # the type and default of its setting
    text = (home / "protocols" / "weighted_erm.py").read_text()
    assert not re.search(r"""relation\s*(==|!=| in )""", text)
