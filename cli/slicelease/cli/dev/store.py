"""The ledger of a run: on the embedded Valkey, or on a Redis of the user's.

May live here: opening and closing it. May not know: what is in it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from slicelease.control_plane.ports import Ledger
from slicelease.control_plane.redis_ledger import RedisLedger

from .plan import DevPlan


@asynccontextmanager
async def open_ledger(plan: DevPlan) -> AsyncIterator[Ledger]:
    """A ledger for the time of the block.

    On the embedded store it opens at once, restarted or not: its workers ended with it.
    """
    settings = plan.control_plane
    config = settings.ledger_config()
    if plan.redis_url is None:
        config = replace(config, open_when_new=True, open_when_restarted=True)
    ledger = RedisLedger.connect(settings.redis_url.get_secret_value(), settings.cell, config)
    yield ledger
