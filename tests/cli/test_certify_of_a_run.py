"""What `coterie run` writes is what `coterie certify --from` computes again."""

import json

from cli_world import coterie


def test_a_runs_certificates_agree(ran):
    found = coterie("certify", "--from", ran.out / "result.json", "--json")
    assert found.status == 0, found.stderr
    spent = ran.json["privacy"]["certified_epsilon"]["per_owner"]
    again = {owner: one["found"] for one in found.json["certificates"] for owner in one["owners"]}
    assert [again[owner] for owner in range(len(spent))] == spent


def test_a_run_that_was_tampered_with_is_noticed(ran, tmp_path):
    result = json.loads((ran.out / "result.json").read_text())
    result["privacy"]["certificates"][0]["epsilon"] *= 0.9
    (tmp_path / "result.json").write_text(json.dumps(result))
    found = coterie("certify", "--from", tmp_path / "result.json")
    assert found.status == 2
    assert found.stderr.count("\n") == 1
