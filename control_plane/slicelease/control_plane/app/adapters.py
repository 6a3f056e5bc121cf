"""Which adapters stand behind the ports: those that were handed in, or Redis and RabbitMQ as the settings say.

May live here: that choice, and their opening and closing. May not know: what is done with them.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

from slicelease.control_plane.config import ControlPlaneSettings
from slicelease.control_plane.ports import Broker, DirectiveBus, Ledger
from slicelease.control_plane.rpc.directives import LocalDirectiveBus


@dataclass(frozen=True, slots=True)
class Adapters:
    """What stands behind the ports."""

    ledger: Ledger
    broker: Broker
    bus: DirectiveBus


async def open_adapters(
    stack: AsyncExitStack, settings: ControlPlaneSettings, ledger: Ledger | None, broker: Broker | None
) -> Adapters:
    """The adapters, closed with the stack; each opens whether or not its server is there. A given ledger is of one process."""
    bus: DirectiveBus = LocalDirectiveBus()
    if ledger is None:
        ledger, bus = await _redis(stack, settings)
    return Adapters(ledger, broker if broker is not None else await _rabbitmq(stack, settings), bus)


async def _redis(stack: AsyncExitStack, settings: ControlPlaneSettings) -> tuple[Ledger, DirectiveBus]:
    from slicelease.control_plane.redis_ledger import RedisLedger  # not needed where a ledger is handed in
    from slicelease.control_plane.redis_ledger.directive_bus import RedisDirectiveBus

    url = settings.redis_url.get_secret_value()
    ledger = await RedisLedger.open(url, settings.cell, settings.ledger_config())
    stack.push_async_callback(ledger.close)
    return ledger, RedisDirectiveBus(url, settings.cell)


async def _rabbitmq(stack: AsyncExitStack, settings: ControlPlaneSettings) -> Broker:
    from slicelease.control_plane.broker import RabbitBroker  # not needed where a broker is handed in

    heartbeat_s = int(settings.amqp_heartbeat.total_seconds())
    return await stack.enter_async_context(RabbitBroker(settings.amqp_url.get_secret_value(), heartbeat_s=heartbeat_s))
