"""The one table of errors: it is whole, it is what the protos say, and nothing a driver said gets through it."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2

from slicelease.control_plane.domain import commands as c
from slicelease.control_plane.domain.names import InvalidNameError, LeaseKey, QueueKey, check_id
from slicelease.control_plane.domain.outcomes import Failed, RefusalReason, Refused, Touched
from slicelease.control_plane.domain.policy import ClassPolicy, QueuePolicy, TenantPolicy
from slicelease.control_plane.ports import BrokerUnavailableError, LedgerUnavailableError, LedgerVersionError
from slicelease.control_plane.rpc.refusals import expect, from_exception, refusal
from slicelease.control_plane.rpc.status import TABLE, CallError, Fault, Reason, to_status
from slicelease.v1 import error_reason_pb2

PROTO = Path(__file__).resolve().parents[3] / "protos/slicelease/v1/error_reason.proto"
SLOT = c.SlotRequest("w1", 0, 7, "d")
LEASE = LeaseKey("acme", "mail", 17)
QUEUE = QueueKey("acme", "mail")


def documented() -> dict[str, str]:
    """Reason -> the first code that its comment names."""
    found: dict[str, str] = {}
    code = ""
    for line in PROTO.read_text().splitlines():
        if named := re.match(r"\s*// ([A-Z_]+)[:,]", line):
            code = named[1]
        if value := re.match(r"\s*ERROR_REASON_(\w+) = \d+;", line):
            found[value[1]] = code
    return found


def test_the_table_has_every_reason_of_the_protos() -> None:
    names = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()} - {"UNSPECIFIED"}  # noqa: SIM118  # an enum's wrapper is no dict
    assert {reason.value for reason in Reason} == names == {reason.value for reason in TABLE}


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_has_the_code_that_its_comment_promises(reason: Reason) -> None:
    assert TABLE[reason][0].name == documented()[reason.value]


@pytest.mark.parametrize("reason", list(Reason))
def test_error_info_comes_first_and_names_the_reason(reason: Reason) -> None:
    fault = Fault(reason, "text", {"name": "tenants/acme", "field": "f", "request_id": "r"}, retry_after_ms=1_500)
    status = to_status(fault)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain, info.metadata["name"]) == (reason.value, "slicelease", "tenants/acme")
    assert status.details[1].Unpack(retry)
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (1, 500_000_000)


TENANT_NAME, QUEUE_NAME = {"name": "tenants/acme"}, {"name": "tenants/acme/queues/mail"}
LEASE_NAME, CLASS_NAME = {"name": "tenants/acme/queues/mail/leases/17"}, {"name": "priorityClasses/gold"}
ASK, CLAIM = c.Acquire(SLOT, ("a",)), c.ClaimPublish(c.RequestKey("r", "d"), "m", "k")
R = RefusalReason
REFUSALS: list[tuple[R, c.Command, dict[str, str], str, str]] = [
    (R.TENANT_NOT_FOUND, c.GetTenant("acme"), TENANT_NAME, "NOT_FOUND", "ResourceInfo"),
    (R.TENANT_NOT_FOUND, c.GetQueue(QUEUE), TENANT_NAME, "NOT_FOUND", "ResourceInfo"),
    (R.QUEUE_NOT_FOUND, c.Pause(QUEUE), QUEUE_NAME, "NOT_FOUND", "ResourceInfo"),
    (R.LEASE_NOT_FOUND, c.Revoke(LEASE), LEASE_NAME, "NOT_FOUND", "ResourceInfo"),
    (R.RESOURCE_EXISTS, c.CreateQueue(QUEUE, QueuePolicy()), QUEUE_NAME, "ALREADY_EXISTS", "ResourceInfo"),
    (R.RESOURCE_EXISTS, c.CreateClass("gold", ClassPolicy(1)), CLASS_NAME, "ALREADY_EXISTS", "ResourceInfo"),
    (R.ETAG_MISMATCH, c.DeleteTenant("acme", "3"), TENANT_NAME, "ABORTED", "ResourceInfo"),
    (R.RESOURCE_IN_USE, c.DeleteClass("gold"), CLASS_NAME, "FAILED_PRECONDITION", "PreconditionFailure"),
    (R.REQUEST_ID_REUSED, ASK, {"request_id": "w1/0/7"}, "INVALID_ARGUMENT", "BadRequest"),
    (R.REQUEST_SUPERSEDED, ASK, {"request_id": "w1/0/7"}, "FAILED_PRECONDITION", "PreconditionFailure"),
    (R.REQUEST_IN_PROGRESS, CLAIM, {"request_id": "r"}, "ABORTED", "RetryInfo"),
    (R.LEASE_OVER, c.Renew(SLOT, LEASE, c.Totals()), LEASE_NAME, "FAILED_PRECONDITION", "PreconditionFailure"),
]


@pytest.mark.parametrize(("reason", "command", "metadata", "code", "detail"), REFUSALS)
def test_a_refusal_names_what_it_speaks_of(
    reason: RefusalReason, command: c.Command, metadata: dict[str, str], code: str, detail: str
) -> None:
    error = refusal(Refused(reason, "subject"), command)
    assert error.code.name == code
    assert error.fault.reason.value == reason.value
    assert dict(error.fault.metadata) == metadata
    assert detail in {each.type_url.rpartition(".")[2] for each in error.status().details}


def test_every_refusal_of_the_ledger_is_in_the_table() -> None:
    covered = {reason for reason, *_ in REFUSALS} | {RefusalReason.PRIORITY_CLASS_NOT_FOUND}
    assert covered == set(RefusalReason)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (c.GetClass("gold"), grpc.StatusCode.NOT_FOUND),
        (c.DeleteClass("gold"), grpc.StatusCode.NOT_FOUND),
        (c.CreateTenant("acme", TenantPolicy("gold")), grpc.StatusCode.FAILED_PRECONDITION),
        (c.UpdateQueue(QUEUE, QueuePolicy("gold")), grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
def test_a_missing_class_is_a_precondition_where_another_resource_names_it(command: c.Command, code: grpc.StatusCode) -> None:
    error = refusal(Refused(RefusalReason.PRIORITY_CLASS_NOT_FOUND, "gold"), command)
    assert error.code is code
    assert error.fault.metadata["name"] == "priorityClasses/gold"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (LedgerUnavailableError("redis://:secret@host"), Reason.LEDGER_UNAVAILABLE),
        (LedgerVersionError("redis://:secret@host"), Reason.LEDGER_UNAVAILABLE),
        (BrokerUnavailableError("amqp://u:secret@host"), Reason.BROKER_UNAVAILABLE),
    ],
)
def test_what_a_driver_said_stays_inside(error: Exception, reason: Reason) -> None:
    known = from_exception(error)
    assert known is not None
    assert known.fault.reason is reason
    assert known.code is grpc.StatusCode.UNAVAILABLE
    assert b"secret" not in known.status().SerializeToString()


def test_an_invalid_name_is_shown_harmlessly() -> None:
    with pytest.raises(InvalidNameError) as caught:
        check_id("tenant_id", "acme\n" + "x" * 500)
    known = from_exception(caught.value)
    assert known is not None
    assert known.fault.metadata["field"] == "tenant_id"
    assert "\n" not in known.fault.metadata["value"]
    assert len(known.fault.metadata["value"]) < 120


def test_an_exception_that_nobody_expected_is_not_in_the_table() -> None:
    assert from_exception(ZeroDivisionError("x")) is None


def test_a_command_that_broke_alone_is_internal_with_an_incident() -> None:
    with pytest.raises(CallError) as caught:
        expect(Failed("lua: attempt to index nil"), Touched, c.Touch(QUEUE))
    assert caught.value.code is grpc.StatusCode.INTERNAL
    assert len(caught.value.fault.metadata["incident"]) == 32
    assert b"lua" not in caught.value.status().SerializeToString()
