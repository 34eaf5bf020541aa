"""`rnnlm filter` as a user calls it, with a real Prefect server."""

import json
from pathlib import Path

import pytest
from prefect.artifacts import Artifact

from flows.command_line import main
from flows.scoring_flow import filter_flow
from rnnlm.errors import ConfigError
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.long
def test_it_shows_what_is_on_each_side_of_the_line(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, home: Home, tmp_path: Path, prefect_server: None
) -> None:
    (texts,) = home.corpora.glob("*/test.txt")
    lines = texts.read_text(encoding="utf-8").splitlines()
    (tmp_path / "in.txt").write_text("\n".join([*lines, "river the the near . fox dog"]) + "\n")
    arguments = ["filter", "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "kept")]
    arguments += ["--model", toy_run.run_id, "--keep-share", "0.9", "--keep", "tokens > 1"]
    assert main(arguments) == 0
    page = capsys.readouterr().out
    for part in ("(tokens > 1) and ", "bits_per_byte <=", "kept ▒, dropped █", "river the the near . fox dog"):
        assert part in page
    assert max(len(line) for line in page.splitlines() if str(tmp_path) not in line) <= 80
    kept = (tmp_path / "kept" / "in.txt").read_text().splitlines()
    assert kept == [line for line in lines if line in kept]  # The kept lines are in their original order.
    artifact = Artifact.get("filter")
    assert artifact is not None
    assert "data:image/png;base64,iVBOR" in str(artifact.data)

    assert main([*arguments, "--json", "--dropped", str(tmp_path / "dropped")]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["scoring"]["skipped"] is True  # The second run uses the stored scores of the first one.
    dropped = [json.loads(line) for line in (tmp_path / "dropped" / "in.txt.jsonl").read_text().splitlines()]
    assert len(dropped) == sum(row["documents"] for row in value["counts"] if row["reason"])
    assert {row["reason"] for row in dropped} == {f"not {value['rules'][1]}"}


@pytest.mark.long
def test_the_flow_refuses_what_the_command_refuses(toy_run: RunRecord, tmp_path: Path, prefect_server: None) -> None:
    """The flow checks its input as the command does, because runs of a deployment do not use the command."""
    (tmp_path / "list.json").write_text('[{"text": "one"}]\n')
    config = {"input": str(tmp_path), "output": str(tmp_path / "kept"), "keep": "tokens > 1", "model": toy_run.run_id}
    with pytest.raises(ConfigError, match="one object per line"):
        filter_flow(FilterConfig.model_validate(config))


def test_a_wrong_condition_is_told_before_the_scoring(capsys: pytest.CaptureFixture[str], toy_run: RunRecord) -> None:
    arguments = ["filter", "--input", __file__, "--output", "kept", "--model", toy_run.run_id, "--keep", "bit < 3"]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "--keep 'bit < 3'" in err
    assert "bits_per_byte" in err
