"""ports.Broker: tickets out, raised attention in."""

import asyncio

import pytest

from slicelease.control_plane.ports import BrokerUnavailableError, RaisedAttention
from tests.contract.broker.world import World
from tests.servers import wait_for_asyncio

pytestmark = pytest.mark.asyncio


async def take(world: World, count: int, limit: int = 100) -> list[RaisedAttention]:
    """Exactly `count`, in as many calls as it needs."""
    taken: list[RaisedAttention] = []
    async with asyncio.timeout(20):
        while len(taken) < count:
            some = await world.broker.take_raised(limit)
            assert 1 <= len(some) <= limit
            taken += some
    assert len(taken) == count
    return taken


async def nothing_comes(world: World) -> bool:
    """Whether nothing of what was raised before is delivered ahead of what is raised now."""
    await world.raise_attention(b"the next")
    (raised,) = await world.broker.take_raised(100)
    await world.broker.ack_raised([raised])
    return raised.body == b"the next"


async def test_tickets_reach_their_class_in_order(world: World) -> None:
    assert await world.broker.attention_count("standard") == 0
    bodies = [f"ticket {n}".encode() for n in range(100)]
    assert await world.broker.announce("standard", bodies) == 100
    assert await world.broker.announce("standard", []) == 0
    assert await world.broker.attention_count("standard") == 100
    seen = await world.drain("attention.standard")
    assert [ticket.body for ticket in seen] == bodies
    assert {ticket.content_type for ticket in seen} == {"application/json"}


async def test_nothing_is_taken_for_announced_where_the_queue_is_missing(world: World) -> None:
    """A07: the attention queue is deleted, then a ticket is published."""
    await world.delete_queue("attention.standard")
    assert await world.broker.attention_count("standard") is None
    assert await world.broker.announce("standard", [b"1", b"2"]) == 0
    await world.broker.declare_topology(["standard"])
    assert await world.broker.announce("standard", [b"1", b"2"]) == 2
    assert await world.broker.attention_count("standard") == 2


async def test_only_what_fitted_counts_as_announced(world: World) -> None:
    await world.delete_queue("attention.standard")
    await world.declare_queue("attention.standard", {"x-max-length": 3, "x-overflow": "reject-publish"})
    await world.broker.declare_topology(["standard"])  # adopts it and binds it
    sure = await world.broker.announce("standard", [b"%d" % n for n in range(10)])
    assert sure == 3
    assert [ticket.body for ticket in await world.drain("attention.standard")] == [b"0", b"1", b"2"]


async def test_declaring_the_topology_again_loses_nothing(world: World) -> None:
    await world.broker.announce("standard", [b"1"])
    await world.broker.declare_topology(["standard", "bulk"])
    assert await world.broker.attention_count("standard") == 1
    assert await world.broker.attention_count("bulk") == 0


async def test_raised_attention_is_taken_once_it_is_there(world: World) -> None:
    waiting = asyncio.ensure_future(world.broker.take_raised(10))
    assert await world.raise_attention(b'{"tenant": "acme"}')
    async with asyncio.timeout(20):
        (raised,) = await waiting
    assert raised.body == b'{"tenant": "acme"}'
    await world.broker.ack_raised([raised])
    assert await nothing_comes(world)


async def test_no_more_than_the_limit_is_taken_and_in_order(world: World) -> None:
    for n in range(25):
        await world.raise_attention(b"%d" % n)
    taken = await take(world, 25, limit=10)
    assert [raised.body for raised in taken] == [b"%d" % n for n in range(25)]
    await world.broker.ack_raised(taken)


async def test_a_cancelled_wait_takes_nothing_away(world: World) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await world.broker.take_raised(10)
    await world.raise_attention(b"1")
    assert [raised.body for raised in await take(world, 1)] == [b"1"]


async def test_what_is_returned_comes_back_and_what_is_acked_does_not(world: World) -> None:
    for n in range(3):
        await world.raise_attention(b"%d" % n)
    first, second, third = await take(world, 3)
    await world.broker.ack_raised([second])
    await world.broker.return_raised([first, third])
    again = await take(world, 2)
    assert sorted(raised.body for raised in again) == [b"0", b"2"]
    await world.broker.ack_raised(again)
    assert await nothing_comes(world)


async def test_what_is_refused_lies_with_the_dead_letters_and_its_reason(world: World) -> None:
    """A05, last clause: never requeued hot, never lost."""
    await world.raise_attention(b"not JSON", {"from": "shop"})
    await world.broker.refuse_raised(await take(world, 1), "NOT_JSON")
    (dead,) = await world.drain("dead.unsorted")
    assert dead.body == b"not JSON"
    assert dead.headers == {"from": "shop", "x-slicelease-reason": "NOT_JSON"}
    assert await nothing_comes(world)


async def test_a_second_answer_is_without_effect(world: World) -> None:
    for n in range(3):
        await world.raise_attention(b"%d" % n)
    first, second, third = await take(world, 3)
    await world.broker.ack_raised([first])
    await world.broker.refuse_raised([second], "NOT_JSON")
    await world.broker.return_raised([first, second, third])
    again = await take(world, 1)
    assert [raised.body for raised in again] == [b"2"]
    await world.broker.ack_raised([first, second, third, *again])
    assert await nothing_comes(world)


async def test_many_are_refused_at_once(world: World) -> None:
    for n in range(200):
        await world.raise_attention(b"%d" % n)
    await world.broker.refuse_raised(await take(world, 200), "NOT_JSON")
    assert {dead.body for dead in await world.drain("dead.unsorted")} == {b"%d" % n for n in range(200)}


async def test_a_refusal_works_where_the_dead_letters_have_been_deleted(world: World) -> None:
    await world.delete_queue("dead.unsorted")
    await world.raise_attention(b"not JSON")
    await world.broker.refuse_raised(await take(world, 1), "NOT_JSON")
    assert len(await world.drain("dead.unsorted")) == 1


async def test_the_queue_of_raised_attention_is_made_again_under_its_consumer(world: World) -> None:
    """A10: deleted while it is consumed."""
    await world.raise_attention(b"before")
    (held,) = await take(world, 1)
    await world.delete_queue("attention.work")
    waiting = asyncio.ensure_future(_take_when_possible(world))
    await wait_for_asyncio(lambda: world.raise_attention(b"after"), 20, "attention is routed again")
    async with asyncio.timeout(20):
        assert b"after" in [raised.body for raised in await waiting]
    await world.broker.ack_raised([held])  # went with its queue; dropped in silence


async def _take_when_possible(world: World) -> list[RaisedAttention]:
    """As the intake's runner does: an error means to try again."""
    while True:
        try:
            return await world.broker.take_raised(10)
        except BrokerUnavailableError:
            await asyncio.sleep(0.05)
