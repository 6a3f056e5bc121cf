"""Lease windows, tickets and their desk: properties."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicelease.worker.attention import NotATicketError, TicketDesk, TurnEnd, is_spent, parse_ticket, wants_next
from slicelease.worker.lease_window import LeaseWindow
from slicelease.worker.leases import EndReason, Ticket

instants = st.floats(0, 1e9)
validities = st.floats(0.01, 600)


@given(instants, validities)
def test_a_window_renews_before_it_stops_and_stops_before_the_end(asked_s: float, valid_s: float) -> None:
    window = LeaseWindow(asked_s, valid_s)
    assert asked_s < window.renew_at_s < window.stop_at_s < window.ends_at_s
    assert window.ends_at_s - window.stop_at_s <= 1.000_001
    assert window.remaining_s(window.ends_at_s) == 0
    assert window.remaining_s(asked_s) == pytest.approx(window.stop_at_s - asked_s)


def test_the_default_windows() -> None:
    first, full = LeaseWindow(100.0, 5.0), LeaseWindow(100.0, 15.0)
    assert (first.renew_at_s, first.stop_at_s) == pytest.approx((101.667, 104.75), abs=0.001)
    assert (full.renew_at_s, full.stop_at_s) == pytest.approx((105.0, 114.25))


def test_tickets_are_read() -> None:
    assert parse_ticket("bulk", b'{"announcement_id":"1-7","created_at":"2026-01-01T00:00:00Z"}') == Ticket("bulk", "1-7")
    assert parse_ticket("bulk", b'{"announcementId":"1-7"}') == Ticket("bulk", "1-7")


NO_TICKETS = [
    *(b"", b"not json", b"\xff\xfe", b"[]", b"{}", b'{"announcement_id":7}', b'{"announcement_id":""}'),
    *(b"[" * 8_000, b"1" * 8_000, b'{"announcement_id":"1"}' + b" " * 9_000),
    json.dumps({"announcement_id": "x" * 129}).encode(),
]


@pytest.mark.parametrize("body", NO_TICKETS)
def test_what_is_no_ticket_is_refused(body: bytes) -> None:
    with pytest.raises(NotATicketError):
        parse_ticket("bulk", body)


STEPS = st.one_of(
    st.tuples(st.just("arrive"), st.just(0)),
    st.tuples(st.just("free"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(0, 7)),
    st.tuples(st.just("lose"), st.integers(0, 2)),
)


@given(st.integers(1, 4), st.lists(STEPS))
def test_every_ticket_leaves_the_desk_once_and_waits_only_while_no_slot_is_free(slots: int, steps: list[tuple[str, int]]) -> None:
    desk: TicketDesk[int] = TicketDesk(slots, patience_s=0.5)
    now_s, arrived, left = 0.0, 0, list[int]()
    waiting_since: dict[int, float] = {}
    busy: dict[int, int] = {}
    for what, value in steps:
        if what == "arrive":
            arrived += 1
            slot = desk.arrived(arrived, now_s)
            if slot is None:
                assert len(busy) == slots
                waiting_since[arrived] = now_s
            else:
                assert slot not in busy
                busy[slot] = arrived
        elif what == "free" and busy:
            slot = list(busy)[value % len(busy)]
            left.append(busy.pop(slot))
            following = desk.freed(slot)
            if following is not None:
                assert following == min(waiting_since)
                del waiting_since[following]
                busy[slot] = following
        elif what == "wait":
            now_s += value / 10
            for ticket in desk.overdue(now_s):
                assert now_s - waiting_since.pop(ticket) >= 0.499
                left.append(ticket)
        elif what == "lose":
            gone = desk.withdraw(lambda ticket, rest=value: ticket % 3 == rest)  # type: ignore[misc]
            left += gone
            for ticket in gone:
                del waiting_since[ticket]
        assert desk.waiting_total == len(waiting_since)
        assert desk.next_overdue_s == (min(waiting_since.values()) + 0.5 if waiting_since else math.inf)
    assert sorted([*left, *busy.values(), *waiting_since]) == list(range(1, arrived + 1))


def test_only_an_answer_of_the_ledger_spends_a_ticket() -> None:
    assert is_spent(TurnEnd.ANSWERED)
    assert not is_spent(TurnEnd.UNKNOWN)


@given(st.sampled_from(EndReason), st.floats(0, 100), st.booleans())
def test_a_chain_goes_on_while_the_ticket_may_be_held(reason: EndReason, now_s: float, stopping: bool) -> None:
    broken = {EndReason.LEASE_LOST, EndReason.BROKER_LOST, EndReason.UNUSED, EndReason.SHUTDOWN}
    expected = now_s < 60 and not stopping and reason not in broken
    assert wants_next(reason, now_s, 60.0, stopping=stopping) == expected
