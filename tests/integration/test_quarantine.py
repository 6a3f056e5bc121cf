"""What the quarantine of a lost lease rests on: how long the broker takes to give up a holder that is frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.e2e import raw_amqp
from tests.servers import RabbitMQ, spawn, wait_for

HEARTBEAT_S = 1
QUARANTINE_S = 3 * HEARTBEAT_S + 1

HOLDER = """
import sys, trio
from slicelease.worker.amqp import open_connection

async def hold():
    async with open_connection(sys.argv[1], heartbeat_s=int(sys.argv[2])) as connection:
        channel = await connection.open_channel()
        assert await channel.get("work.held") is not None
        print("holding", flush=True)
        await trio.sleep_forever()

trio.run(hold)
"""


def test_a_frozen_holders_messages_are_back_within_the_quarantine(amqp_url: str, rabbitmq: RabbitMQ, vhost: str) -> None:
    raw_amqp.declare(amqp_url, "work.held", {})
    raw_amqp.publish(amqp_url, "", "work.held", b"1")
    holder = spawn([sys.executable, "-c", HOLDER, amqp_url, str(HEARTBEAT_S)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holding\n"
        os.kill(holder.pid, signal.SIGSTOP)
        frozen_s = time.monotonic()
        wait_for(lambda: _taken(amqp_url), 3 * QUARANTINE_S, "the message is back")
        assert time.monotonic() - frozen_s < QUARANTINE_S
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()


def _taken(amqp_url: str) -> bool:
    async def take(channel: raw_amqp.Channel) -> bool:
        message = await channel.get("work.held")
        if message is None:
            return False
        channel.ack(message.delivery_tag)
        await channel.close()
        return True

    return raw_amqp.at_broker(amqp_url, take)
