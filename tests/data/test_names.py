"""Names in the order that people expect, and spellings that mean the same."""

import random

from coterie.problems.names import alike, folded, natural, number_text, some


def test_numbers_in_names_are_ordered_by_size():
    names = ["1", "2", "3", "10", "010a", "a", "A1", "a2", "a10", "b 9 x", "b 10", "９", "9" * 5000]
    shuffled = random.Random(4).sample(names, len(names))
    ordered = sorted(shuffled, key=natural)
    assert ordered == sorted(ordered, key=natural)
    wanted = ["1", "2", "3", "10", "a", "A1", "a2", "a10", "b 9 x", "b 10"]
    assert [name for name in ordered if name in wanted] == wanted
    assert sorted(["9" * 5000, "9" * 4999], key=natural)[0] == "9" * 4999


def test_one_number_is_written_one_way_and_long_ones_stay_exact():
    assert {number_text(one) for one in ("1", "1.0", "01", " 1 ", "1e0", "+1")} == {"1"}
    assert number_text("12345678901234567890") == "12345678901234567890"
    assert number_text("2.50") == "2.5"
    assert [number_text(one) for one in ("", "x", "1_0", "nan", "inf", "1e400", "9" * 5000)] == [None] * 7


def test_spellings_that_look_the_same_are_found():
    assert alike(["p", "q", "p ", "P", "q"]) == [["P", "p", "p "]]
    assert alike(["St  Mary", "st mary", "St. Mary"]) == [["St  Mary", "st mary"]]
    assert alike(["1", "2", "10"]) == []
    assert folded("STRASSE") == folded("straße")


def test_some_of_many():
    assert some(["a", "b"]) == "a, b"
    assert some(["Smith, J.", "Jones, K."]) == "Smith, J.; Jones, K."
    assert some(map(str, range(1200)), 2) == "0, 1 and 1,198 more"
