"""`slicelease dev` with a bounded load: the JSON object, its arithmetic and the exit codes."""

import json
from pathlib import Path

from slicelease.cli.dev.load import DEMO_CLASSES
from tests.e2e.dev_process import DevProcess, dev

KEYS = [
    "published",
    "processed",
    "remaining",
    "dead_lettered",
    "lost",
    "repeated",
    "out_of_order",
    "slices",
    "grants",
    "denials",
    "wait_ms",
    "jain_index",
    "duration_s",
]
DENIALS = {"NO_READY_QUEUE", "ADMISSION_CLOSED", "CLASS_FULL", "DRAINING"}


def finished(run: DevProcess) -> int:
    return run.wait_end(120)


def test_a_bounded_load_is_processed_once_and_in_order(tmp_path: Path) -> None:
    with dev(tmp_path, *["--tenants", "50", "--messages", "2000", "--seed", "7", "--seconds", "60", "--json"]) as run:
        assert finished(run) == 0, run.stderr
        result = run.result()
    assert list(result) == KEYS
    assert (result["published"], result["processed"]) == (2_000, 2_000)
    assert result["lost"] == result["remaining"] == result["dead_lettered"] == 0
    assert result["repeated"] == result["out_of_order"] == 0
    # A slice takes at most 20 messages, and every grant was used and settled.
    assert 100 <= result["slices"] == result["grants"]
    assert set(result["denials"]) <= DENIALS
    assert list(result["wait_ms"]) == list(DEMO_CLASSES)
    for waits in result["wait_ms"].values():
        assert 0 <= waits["p50"] <= waits["p99"] <= waits["max"]
    assert 0 < result["jain_index"] <= 1
    assert 0 < result["duration_s"] < 60
    assert "processed" not in run.stdout.replace(json.dumps(result), "")


def test_time_up_leaves_the_rest_and_says_3(tmp_path: Path) -> None:
    options = "--tenants 9 --messages 3000 --seed 7 --seconds 2 --work-ms 50 --workers 1 --slots 2 --json"
    with dev(tmp_path, *options.split()) as run:
        assert finished(run) == 3, run.stderr
        result = run.result()
    assert result["remaining"] > 0
    assert result["lost"] == 0
    assert result["published"] == result["processed"] + result["remaining"]
    assert 2 <= result["duration_s"] < 30


def test_without_json_people_get_the_same_numbers_and_progress_goes_to_stderr(tmp_path: Path) -> None:
    options = "--tenants 3 --messages 200 --work-ms 50 --seconds 60 --slots 1"
    with dev(tmp_path, *options.split()) as run:
        assert finished(run) == 0, run.stderr
    lines = run.stdout.splitlines()
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[-len(KEYS) :]}
    assert list(shown) == KEYS
    assert shown["processed"] == "200"
    assert "queues with work" in run.stderr, "progress in lines, as stderr is no terminal"
    assert "leases" in run.stderr


def test_an_endless_load_ends_by_time_and_leaves_nothing(tmp_path: Path) -> None:
    with dev(tmp_path, *["--tenants", "5", "--rate", "200", "--seconds", "2", "--json"]) as run:
        assert finished(run) == 0, run.stderr
        result = run.result()
    assert 100 < result["published"] == result["processed"] < 600


def test_an_endless_load_takes_its_settings_from_environment_and_toml(tmp_path: Path) -> None:
    settings = tmp_path / "dev.toml"
    settings.write_text('slots = 1\nlog_level = "debug"\n')
    env = {"SLICELEASE_CONFIG": str(settings), "SLICELEASE_CELL": "from-env"}
    with dev(tmp_path, *["--tenants", "2", "--messages", "20", "--json"], env=env) as run:
        assert finished(run) == 0, run.stderr
    assert "from-env" in run.stderr
    assert run.result()["processed"] == 20
