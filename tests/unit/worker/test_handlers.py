"""Registration and choice of handlers, and what a message looks like to one."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import trio

from slicelease.worker import Reject, SliceWorker, Work
from slicelease.worker.handler_run import Failure, HandlerRunner, Rejection
from slicelease.worker.handlers import is_async
from slicelease.worker.ports import MalformedMessageError


class Properties:
    def __init__(self, type_: str | None = None, **given: Any) -> None:
        self.type = type_
        self.correlation_id: str | None = given.get("correlation_id")
        self.content_type: str | None = given.get("content_type")
        self.headers: dict[str, Any] | None = given.get("headers")


class Delivery:
    redelivered = False
    message_id = "m1"

    def __init__(self, body: bytes = b"", properties: Properties | None = None) -> None:
        self.body = body
        self._properties = properties

    @property
    def properties(self) -> Properties:
        if self._properties is None:
            raise MalformedMessageError("cannot be read")
        return self._properties


def work_of(type_: str | None = None, **given: Any) -> Work:
    return Work(Delivery(b"x", Properties(type_, **given)), "acme", "default", 1, 7)


def app_with(*patterns: str) -> SliceWorker:
    app = SliceWorker()
    for pattern in patterns:
        app.handler(type=pattern)(functools.partial(named, pattern))
    return app


def named(pattern: str, _: Work) -> str:
    return pattern


@pytest.mark.parametrize(
    ("patterns", "message_type", "chosen"),
    [
        (["*", "invoice.*", "invoice.created"], "invoice.created", "invoice.created"),
        (["*", "invoice.*", "invoice.created"], "invoice.paid", "invoice.*"),
        (["*", "invoice.*"], "order", "*"),
        (["*"], "", "*"),
        (["invoice.*"], "", None),
        (["invoice.*"], "invoice", None),
        (["invoice.*"], "invoice.a.b", "invoice.*"),
        (["invoice.*"], "INVOICE.a", None),
        (["*.created", "invoice.*"], "invoice.created", "*.created"),
        (["invoice.?", "invoice.*"], "invoice.x", "invoice.?"),
        (["a[bc]"], "ab", None),
        (["a[bc]"], "a[bc]", "a[bc]"),
        (["line*"], "line\nbreak", "line*"),
    ],
)
def test_the_most_specific_handler_is_chosen(patterns: list[str], message_type: str, chosen: str | None) -> None:
    for order in (patterns, patterns[::-1]):
        if order != patterns and len({len(p.replace("*", "").replace("?", "")) for p in patterns}) < len(patterns):
            continue  # of equals the first registered wins
        handler = app_with(*order).handler_for(message_type)
        assert (None if handler is None else handler(work_of())) == chosen


def test_both_forms_of_registration_return_the_function() -> None:
    app = SliceWorker()

    @app.handler
    async def every(work: Work) -> None: ...

    @app.handler(type="a")
    def one(work: Work) -> None: ...

    assert app.handler_for("a") is one
    assert app.handler_for("b") is every
    assert app.patterns == ("*", "a")
    assert app.handler_name_of(work_of("a")).endswith("<locals>.one")


def test_mistakes_in_registration_are_named() -> None:
    app = app_with("a")
    with pytest.raises(ValueError, match="a handler for type 'a' already"):
        app.handler(type="a")(lambda _: None)
    with pytest.raises(ValueError, match="must not be empty"):
        app.handler(type="")(lambda _: None)
    with pytest.raises(TypeError, match="must be a function"):
        app.handler(42)  # type: ignore[call-overload]


def test_what_is_awaited() -> None:
    async def coroutine(work: Work, more: int = 0) -> None: ...

    class Callable_:  # noqa: N801
        async def __call__(self, work: Work) -> None: ...

    assert is_async(coroutine)
    assert is_async(functools.partial(coroutine, more=1))
    assert is_async(Callable_())
    assert not is_async(lambda _: None)


def test_absent_properties_are_empty_and_headers_read_only() -> None:
    work = work_of()
    assert (work.type, work.correlation_id, work.content_type, dict(work.headers)) == ("", "", "", {})
    with pytest.raises(TypeError):
        work_of(headers={"a": 1}).headers["a"] = 2  # type: ignore[index]
    assert "x" not in repr(work).replace("bytes", "")


async def verdict_of(handle: Callable[[Work], Any], work: Work | None = None) -> Rejection | Failure | None:
    app = SliceWorker()
    app.handler(handle)
    return await HandlerRunner(app, 2).run(work or work_of())


@pytest.mark.trio
async def test_handlers_of_one_name_may_be_of_both_kinds() -> None:
    app, seen = SliceWorker(), list[str]()

    def make(kind: str) -> Callable[[Work], Any]:
        def handle(work: Work) -> None:
            seen.append(work.type)

        async def handle_async(work: Work) -> None:
            seen.append(work.type)

        handle_async.__qualname__ = handle.__qualname__
        return handle if kind == "plain" else handle_async

    for kind in ("plain", "async"):
        app.handler(type=kind)(make(kind))
    runner = HandlerRunner(app, 1)
    for kind in ("plain", "async", "plain"):
        assert await runner.run(work_of(kind)) is None
    assert seen == ["plain", "async", "plain"]


@pytest.mark.trio
async def test_unreadable_properties_reject_a_message() -> None:
    broken = Work(Delivery(b"x", None), "acme", "default", 1, 7)

    async def reads(work: Work) -> None:
        _ = work.headers

    async def does_not_care(work: Work) -> None: ...

    assert await verdict_of(reads, broken) == Rejection("malformed", "MalformedMessageError: cannot be read")
    assert await verdict_of(does_not_care, broken) is None
    typed = SliceWorker()
    typed.handler(type="a")(does_not_care)
    verdict = await HandlerRunner(typed, 1).run(broken)
    assert isinstance(verdict, Rejection)
    assert verdict.reason == "malformed"


@pytest.mark.trio
async def test_reasons_are_cut_to_what_a_header_of_ours_holds() -> None:
    async def rejects(work: Work) -> None:
        raise Reject("é" * 500)

    async def rejects_mutely(work: Work) -> None:
        raise Reject

    verdict = await verdict_of(rejects)
    assert isinstance(verdict, Rejection)
    assert verdict.reason == "é" * 127
    assert await verdict_of(rejects_mutely) == Rejection("rejected by its handler")


@pytest.mark.trio
@pytest.mark.parametrize("base", [ValueError, Reject])
async def test_an_exception_that_cannot_be_told_is_a_verdict_like_any_other(base: type[Exception]) -> None:
    class Mute(base):  # type: ignore[valid-type,misc]  # one class for each base
        def __str__(self) -> str:
            raise RuntimeError("no text")

    async def raises(work: Work) -> None:
        raise Mute

    verdict = await verdict_of(raises)
    if base is Reject:
        assert verdict == Rejection("its text cannot be had")
    else:
        assert isinstance(verdict, Failure)
        assert verdict.error == "Mute: its text cannot be had"


@pytest.mark.trio
async def test_cancelled_leaves_alone_and_out_of_groups() -> None:
    async def cancels_in_group(work: Work) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()

    with trio.move_on_after(0.01) as scope:
        await verdict_of(cancels_in_group)
    assert scope.cancelled_caught


@pytest.mark.trio
async def test_an_interrupt_is_no_failure_of_the_handler() -> None:
    async def interrupted(work: Work) -> None:
        raise BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError()])

    with pytest.raises(BaseExceptionGroup):
        await verdict_of(interrupted)
