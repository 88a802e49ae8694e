"""Bad input: one clear line, exit status 2, nothing written."""

import pytest
from cli_world import HOSPITALS, coterie, on, write_visits


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder beside a folder of files, so that whatever a command writes is seen."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def refused(here, *arguments, names: tuple[str, ...]) -> None:
    done = coterie(*arguments)
    assert done.status == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    for name in names:
        assert name in done.stderr
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--data", "nothing"], ("data='nothing'", "census")),
        (["--data", "nowhere.csv", "--target", "y"], ("nowhere.csv", "no such file")),
        (["nowhere.toml"], ("nowhere.toml", "cannot be read")),
        (["census"], ("experiment='census'", "named by --data")),
        (["--protocol", "gossip"], ("protocol='gossip'", "dual_averaging")),
        (["--protocol", "dual_averging"], ("Did you mean 'dual_averaging'?",)),
        (["--data", "Cenus"], ("Did you mean 'census'?",)),
        (["--topology", "rnig"], ("Did you mean 'ring'?",)),
        (["--engine", "spdm"], ("Did you mean 'spmd'?",)),
        (["--set", "ronds=3"], ("Did you mean 'rounds'?",)),
        (["--epsilom", "3"], ("No such option: --epsilom", "Did you mean --epsilon?")),
        (["--engine", "cluster"], ("engine='cluster'", "simulate")),
        (["--calibration", "loose"], ("calibration='loose'", "certified")),
        (["--partition", "halves"], ("partition='halves'", "iid")),
        (["--topology", "chain"], ("topology='chain'", "ring")),
        (["--loss", "cubic"], ("cubic", "logistic")),
        (["--model", "deep"], ("model='deep'", "linear")),
        (["--features", "magic"], ("magic",)),
        (["--metric", "acuracy"], ("metric='acuracy'", "Did you mean 'accuracy'?")),
        (["--metric", "r2"], ("metric='r2'", "says nothing of a binary target", "accuracy")),
        (["--base-rate", "0.7"], ("base_rate=0.7", "at most 0.5")),
        (["--epsilon", "0"], ("epsilon=0.0", "> 0")),
        (["--epsilon", "-1"], ("epsilon=-1.0", "> 0")),
        (["--epsilon", "nan"], ("epsilon=nan",)),
        (["--epsilon", "inf"], ("epsilon=inf", "finite")),
        (["--epsilon", "one"], ("epsilon='one'", "number")),
        (["--epsilon", "1,2"], ("2 budgets for 20 owners",)),
        (["--epsilon", "nowhere.csv:budget"], ("nowhere.csv", "cannot be read")),
        (["--delta", "0"], ("delta=0.0", "between 0 and 1")),
        (["--delta", "1"], ("delta=1.0", "between 0 and 1")),
        (["--delta", "nan"], ("delta=nan",)),
        (["--owners", "0"], ("owners=0",)),
        (["--owners", "30000"], ("owners=30000", "27530 records")),
        (["--gossip-steps", "0"], ("gossip_steps=0",)),
        (["--microbatch", "0"], ("microbatch=0", ">= 1")),
        (["--seed", "-1"], ("seed=-1",)),
        (["--seed", "4294967295"], ("seed=4294967295",)),
        (["--set", "rounds"], ("'rounds'", "KEY=VALUE")),
        (["--set", "pace=3"], ("dual_averaging.pace", "rounds")),
        (["--set", "rounds=many"], ("dual_averaging.rounds='many'", "a whole number")),
        (["--set", "rounds=-1"], ("rounds=-1",)),
        (["--set", "radius=NaN"], ("settings.radius=nan", "finite")),
        (["--set", "variant=best"], ("dual_averaging.variant='best'", "liu")),
        (["--owners", "many"], ("--owners",)),
        (["--no-such-option"], ("--no-such-option", "coterie run --help")),
        (["one.toml", "two.toml"], ("two.toml",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options(here, options, names):
    refused(here, "run", *options, names=names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("owner,budget\nEastside,1\n", ("'Lakeview' has no budget",)),
        ("owner,budget\nEastside,1\nRiverside,2\nLakeview,1\nNorthgate,1\nCastle,9\n", ("'Castle'",)),
        ("hospital,budget\nEastside,1\nEastside,2\n", ("twice in 'hospital'",)),
        ("clinic,budget\nRiverside,1\nEastside,2\n", ("no column 'hospital'", "clinic, budget")),
        ("budget\n4\n", ("one row", "--epsilon 4")),
        ("budget,other\n4,5,6\n", ("no column 'hospital'",)),
        ("buget\n4,5,6\n", ("no column 'budget'", "buget")),
    ],
)
def test_a_file_of_budgets_that_would_go_to_others_than_it_names(here, tmp_path, text, names):
    """A column `owner` was overlooked where the data's has another name, and budgets went to owners in order."""
    path = write_visits(tmp_path / "visits.csv")
    (tmp_path / "budgets.csv").write_text(text)
    refused(here, *on(path), "--epsilon", f"{tmp_path / 'budgets.csv'}:budget", names=names)


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("Eastside,,0.1,yes", ("'age'", "row 201", "empty")),
        ("Eastside,nan,0.1,yes", ("'age'", "row 201")),
        ("Eastside,old,0.1,yes", ("'age'", "row 201", "not a finite number")),
        ("Eastside,inf,0.1,yes", ("'age'", "row 201")),
        ("Eastside,47,0.1,yes", ("'age'", "row 201", "public range")),
        ("Eastside,0.1,0.1,", ("'readmitted'", "row 201")),
        (",0.1,0.1,yes", ("'hospital'", "row 201")),
        ("Southport,0.1,0.1,yes", ("'Southport'", "must be >= 2", "keep the largest only")),
        ("eastside ,0.1,0.1,yes", ("'Eastside' (50 rows), 'eastside ' (1 row)", "Write them alike")),
        ("Eastside,0.1,0.1,Yes", ("'Yes' (1 row), 'yes' (", "Write them alike")),
    ],
)
def test_a_row_of_a_file(here, tmp_path, row, names):
    path = write_visits(tmp_path / "visits.csv")
    path.write_text(path.read_text() + row + "\n")
    refused(here, *on(path), names=names)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--target", "cured"], ("target='cured'", "readmitted")),
        (["--owner-column", "clinic"], ("clinic", "hospital")),
        (["--columns", "nowhere.toml"], ("nowhere.toml", "cannot be read (No such file")),
        (["--partition", "iid", "--owners", "100"], ("owners=100", "160 records")),
        (["--partition", "column", "--owners", "5"], ("owners=5",)),
    ],
)
def test_options_of_a_file(here, visits, options, names):
    refused(here, *on(visits), *options, names=names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("age = [-1, 1]", ("unknown key 'age'", "below [columns]")),
        ("[columns]\nage = [-1, 1]\nAge = [-1, 1]", ("columns='Age'", "Did you mean 'age'?")),
        ("[columns]\nage = [18, 120]\nstay = [-1, 1]", ("'age': all 200 rows lie outside [18, 120]", "unit")),
        ('classes = ["yes", "no"]\nrange = [0, 1]', ("not both",)),
        ('target = "age"', ("target='readmitted'", "says 'age'")),
        ('classes = ["Yes", "No"]', ("'readmitted'", "200 of 200 rows, 200 of them because of")),
        ("classes = [", ("is not TOML",)),
    ],
)
def test_a_columns_file(here, tmp_path, visits, text, names):
    path = tmp_path / "columns.toml"
    path.write_text(text + "\n")
    refused(here, *on(visits), "--columns", path, names=names)


@pytest.mark.parametrize("option", ["--columns", "--target", "--owner-column"])
def test_options_of_a_file_for_a_known_data_set(here, option):
    refused(here, "run", option, "x", names=("='x'", "file of your own"))


@pytest.mark.parametrize("command", [["run"], ["data", "describe"], ["plan", "join"]])
def test_a_header_of_two_million_columns(here, wide, command):
    data = [wide] if command == ["data", "describe"] else ["--data", wide]
    more = ["--owner", "me"] if command == ["plan", "join"] else []
    refused(here, *command, *data, *more, "--target", "c0", names=("wide.csv", "2,000,000 characters"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    path = tmp_path_factory.mktemp("wide") / "wide.csv"
    path.write_text(",".join(map("c{}".format, range(2_000_000))) + "\n" + "0," * 1_999_999 + "0\n")
    return path


def test_a_file_without_a_target(here, visits):
    refused(here, "run", "--data", visits, names=("--target",))


def test_a_disconnected_graph(here, tmp_path, visits):
    graph = tmp_path / "islands.edgelist"
    graph.write_text("0 1\n2 3\n")
    refused(here, *on(visits), "--topology", graph, names=("islands", "connected"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rouns = 5", ("unknown key 'rouns'", "settings")),
        ("epsilonn = 5", ("unknown key 'epsilonn'", "Did you mean 'epsilon'?")),
        ('owners = "four"', ("owners='four'", "a whole number")),
        ("owners = true", ("owners=True", "a whole number")),
        ('epsilon = ["low"]', ("epsilon='low'", "a finite number")),
        ("epsilon = []", ("epsilon=[]",)),
        ("settings = 5", ("settings=5", "a table")),
        ("protocol = 3", ("protocol=3", "text")),
        ("epsilon = ", ("not valid TOML",)),
        ("[settings]\nspeed = 3", ("dual_averaging.speed",)),
    ],
)
def test_an_experiment_file(here, tmp_path, text, names):
    path = tmp_path / "experiment.toml"
    path.write_text(text + "\n")
    refused(here, "run", path, names=names)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("hospital,money\nEastside,1\n", ("'budget'", "money")),
        ("hospital,budget\nEastside,much\n", ("'budget'", "no number")),
        ("hospital,budget\nEastside,1\nEastside,2\n", ("twice",)),
        (
            "hospital,budget\n" + "".join(f"{name},1\n" for name in HOSPITALS[1:]),
            ("'Eastside' has no budget",),
        ),
        (
            "hospital,budget\n" + "".join(f"{name},1\n" for name in (*HOSPITALS, "Southport")),
            ("'Southport' is not an owner",),
        ),
    ],
)
def test_a_file_of_budgets(here, tmp_path, visits, table, names):
    path = tmp_path / "budgets.csv"
    path.write_text(table)
    refused(here, *on(visits), "--epsilon", f"{path}:budget", names=names)


def test_a_folder_that_holds_another_run_is_refused_and_left_alone(here, ran, visits):
    before = {path.name: path.read_bytes() for path in ran.out.iterdir()}
    refused(here, *on(visits), "--out", ran.out, names=(str(ran.out), "not empty", "never overwrites"))
    assert {path.name: path.read_bytes() for path in ran.out.iterdir()} == before


def test_a_folder_below_a_file_is_refused(here, visits):
    refused(here, *on(visits), "--out", visits / "out", names=("out=", "may be written"))
