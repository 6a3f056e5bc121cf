"""Waiting for conditions: the value comes back, the deadline holds, and the message says what was waited for."""

import itertools

import pytest

from tests.servers import WaitTimeoutError, wait_for, wait_for_asyncio, wait_for_trio


def test_the_first_true_value_is_returned() -> None:
    values = iter([None, 0, "", "there"])
    assert wait_for(lambda: next(values), 5, "a value") == "there"


def test_a_late_condition_names_itself_and_its_last_value() -> None:
    with pytest.raises(WaitTimeoutError, match=r"not within 0\.05 s: a queue is empty \(last value: 0\)"):
        wait_for(lambda: 0, 0.05, "a queue is empty")


@pytest.mark.asyncio
async def test_a_coroutine_is_awaited_under_asyncio() -> None:
    counter = itertools.count()

    async def third() -> bool:
        return next(counter) == 2

    assert await wait_for_asyncio(third, 5, "the third look")
    with pytest.raises(WaitTimeoutError, match="never"):
        await wait_for_asyncio(lambda: False, 0.05, "never")


@pytest.mark.trio
async def test_an_async_function_is_awaited_under_trio() -> None:
    counter = itertools.count()

    async def third() -> bool:
        return next(counter) == 2

    assert await wait_for_trio(third, 5, "the third look")
    with pytest.raises(WaitTimeoutError, match="never"):
        await wait_for_trio(lambda: False, 0.05, "never")
