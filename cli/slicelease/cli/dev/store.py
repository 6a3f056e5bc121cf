"""The ledger of a run: on the embedded Valkey, or on a Redis of the user's.

May live here: opening and closing it, and taking away what the run left in a Redis that goes on. May not know: what is in
it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import click
import redis.asyncio
from redis.exceptions import RedisError

from slicelease.control_plane.ports import Ledger, LedgerUnavailableError, LedgerVersionError
from slicelease.control_plane.redis_ledger import RedisLedger
from slicelease.control_plane.redis_ledger.keys import prefix

from .ending import DevError
from .plan import DevPlan

_PAGE = 500


@asynccontextmanager
async def open_ledger(plan: DevPlan) -> AsyncIterator[Ledger]:
    """A ledger for the time of the block. Raises DevError.

    On the embedded store it opens at once, restarted or not: its workers ended with it.
    """
    settings = plan.control_plane
    config = settings.ledger_config()
    if plan.redis_url is None:
        config = replace(config, open_when_new=True, open_when_restarted=True)
    url = settings.redis_url.get_secret_value()
    try:
        ledger = await RedisLedger.connect(url, settings.cell, config)
    except (LedgerUnavailableError, LedgerVersionError, ValueError) as error:
        raise DevError(str(error)) from error
    try:
        yield ledger
    finally:
        await ledger.close()
        if plan.own_cell:
            await _remove(url, settings.cell)


async def _remove(url: str, cell: str) -> None:
    """Drops all keys of the cell."""
    try:
        async with redis.asyncio.from_url(url) as client:
            page: list[bytes] = []
            async for key in client.scan_iter(match=prefix(cell) + "*", count=_PAGE):
                page.append(key)
                if len(page) >= _PAGE:
                    await client.unlink(*page)
                    page.clear()
            if page:
                await client.unlink(*page)
    except (RedisError, OSError) as error:
        click.echo(f"the keys {prefix(cell)}* could not all be removed from Redis: {type(error).__name__}", err=True)
