"""Rule 13 in seconds: from when, and how long, "empty" must not be believed."""

import pytest

from tests.model.explorer import Report, explore, reachable
from tests.model.quarantine_model import BELIEVED_TOO_EARLY, QuarantineModel, believed_in_time


def check(model: QuarantineModel) -> Report:
    return explore(model, [believed_in_time()])


@pytest.mark.parametrize("lease_s", [5, 15], ids=["first validity", "renewed"])
def test_three_heartbeats_from_the_end_of_the_lease_are_enough(lease_s: int) -> None:
    report = check(QuarantineModel(lease_s=lease_s, from_end=True))
    assert report.counterexample is None, str(report.counterexample)
    assert report.states > 300


def test_the_margin_of_the_holders_clock_and_the_second_of_grace_are_slack() -> None:
    assert check(QuarantineModel(from_end=True, believed_after_s=14)).counterexample is None
    assert check(QuarantineModel(from_end=True, believed_after_s=13)).counterexample is not None


@pytest.mark.parametrize("renews_within_s", [15, 5], ids=["the control plane may be away", "always renewed at a third"])
def test_three_heartbeats_from_the_last_renewal_are_not(renews_within_s: int) -> None:
    found = check(QuarantineModel(renews_within_s=renews_within_s)).counterexample
    assert found is not None
    assert found.broken == BELIEVED_TOO_EARLY
    acts = [label for label, _ in found.steps if label != "a second passes"]
    assert acts == ["the first freezes", "the second is granted the queue", "the second settles empty and is believed"]
    assert found.steps[-1][1] == "16 s since its renewal; the first is frozen for 14 s; its connection holds the message; IDLE"


def test_a_running_holder_never_outlives_its_lease() -> None:
    model = QuarantineModel(from_end=True)
    assert max(now.since_renewal for now in reachable(model) if now.frozen < 0 and now.held) == model.lease_s - model.margin_s
