"""The page "who must be honest" has the numbers that are computed."""

from pathlib import Path

from papers import honest, honest_tree

PAGE = Path(__file__).parents[2] / "docs" / "honest.md"


def test_the_pages_table_is_the_computed_one():
    assert honest.table() in PAGE.read_text(encoding="utf-8")


def test_epsilon_grows_with_those_who_work_together_up_to_the_second_number():
    found = [honest.certified(many) for many in honest.SHOWN]
    assert found == sorted(found)
    assert found[0] <= found[1] <= 0.25
    assert abs(found[-1] - 1.58) < 0.01


def test_the_picture_of_trees_is_of_trees_that_reach_everybody_over_links(tmp_path):
    for _, members, root, tree in honest_tree.trees():
        assert {root, *tree.parent} == members
        assert all(parent in honest_tree.graph()[child] for child, parent in tree.parent.items())
    honest_tree.draw(tmp_path / "trees.png")
    assert (tmp_path / "trees.png").stat().st_size > 10_000
