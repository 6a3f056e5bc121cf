"""RabbitMQ behind ports.Broker, for asyncio.

May live here: connections, channels, names of arguments, what each of the broker's answers means. May not know: the
ledger, gRPC, which queue deserves what. aio-pika opens the connections; the hot paths use its protocol layer (aiormq)
directly, because they need what the layer above hides: writes without a round trip each, the death of a channel, a
consumer cancelled by the server.
"""

from .adapter import RabbitBroker

__all__ = ["RabbitBroker"]
