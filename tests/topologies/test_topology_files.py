"""Graphs from files: what networkx reads, and one clear line where it cannot."""

import networkx as nx
import pytest

from coterie.errors import InputError
from coterie.topologies import build


@pytest.mark.parametrize(
    ("ending", "text"), [(".txt", "0 1\n1 2\n2 0\n"), (".csv", "# from, to\na, b\nb, c\nc, a\n")]
)
def test_edge_lists(tmp_path, ending, text):
    file = tmp_path / f"net{ending}"
    file.write_text(text)
    topology = build(str(file), 3)
    assert topology.name == "net"
    assert topology.links.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert not topology.directed
    assert build(file, 3, directed=True).schedule[0].source.size == 6


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_graphml_says_itself_whether_it_is_directed(tmp_path, kind):
    graph = kind([("b", "c"), ("c", "a"), ("a", "b"), ("a", "a")])
    nx.write_graphml(graph, tmp_path / "net.graphml")
    topology = build(tmp_path / "net.graphml", 3)
    assert topology.directed == (kind is nx.DiGraph)
    assert topology.schedule[0].source.size == (6 if topology.directed else 9)


def test_numeric_names_are_ordered_as_numbers(tmp_path):
    (tmp_path / "path.edgelist").write_text("".join(f"{i} {i + 1}\n" for i in range(11)))
    assert build(tmp_path / "path.edgelist", 12).links.tolist() == [[i, i + 1] for i in range(11)]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("gone.csv", None, "no such file"),
        ("net.csv", "source,target\n0,1\n1,2\n", "has 5 owners, the run has 3.*header"),
        ("net.txt", "", "has 0 owners"),
        ("net.graphml", "<graphml><graph", "cannot be read"),
        ("net.graphml", "hello", "cannot be read"),
        ("net.edgelist", b"\xff\xfe\x00 1", "cannot be read"),
    ],
)
def test_unusable_files(tmp_path, file, text, message):
    path = tmp_path / file
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message) as error:
        build(path, 3)
    assert "\n" not in str(error.value)


OWNERS = ("north", "south", "h10", "h2")  # in no order of the alphabet


@pytest.mark.parametrize("first", [None, 0, 1])
def test_owners_are_who_the_file_calls_them_whatever_their_order(tmp_path, first):
    called = OWNERS if first is None else [str(at + first) for at in range(4)]
    (tmp_path / "net.txt").write_text("".join(f"{called[0]} {called[at]}\n" for at in (3, 1, 2)))
    assert build(tmp_path / "net.txt", 4, names=OWNERS).links.tolist() == [[0, 1], [0, 2], [0, 3]]


@pytest.mark.parametrize("text", ["north south\nh10 zed\n", "0 1\n1 2\n2 7\n", "0 south\nh10 h2\n"])
def test_whoever_is_no_owner_is_refused(tmp_path, text):
    (tmp_path / "net.txt").write_text(text)
    with pytest.raises(
        InputError, match=r"'.*' is no owner\. Call all of them by name \(north, south, h10, h2\)"
    ):
        build(tmp_path / "net.txt", 4, names=OWNERS)
