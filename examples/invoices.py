"""A worker application: invoices of many shops, each shop a tenant.

Run it with everything else in one process, and no servers:

    slicelease dev --app examples.invoices:app

or, against a control plane and a RabbitMQ that are up, as a worker:

    slicelease worker --app examples.invoices:app

and give it work:

    grpcurl -plaintext -d '{"queue": "tenants/shop-1", "type": "invoice.created", "payload": "eyJ0b3RhbCI6IDk5fQ=="}' \
        127.0.0.1:50051 slicelease.v1.WorkService/PublishWork

Messages of one shop are handled one after another, in the order in which they were published; different shops run side by side.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import trio

from slicelease.worker import Reject, SliceWorker, Work

DATABASE = Path("invoices.sqlite")

app = SliceWorker()


@app.handler(type="invoice.created")
async def send_invoice(work: Work) -> None:
    """Async handlers run under Trio: await freely, never block. An exception here is retried, up to the queue's max_attempts."""
    invoice = _read(work)
    await trio.sleep(0.05)  # stands for a call of the mail service
    print(f"{work.tenant}: invoice over {invoice['total']} sent (message {work.message_id}, attempt {work.attempt})")


@app.handler(type="invoice.*")
def record_invoice(work: Work) -> None:
    """Ordinary functions run in threads, so they may block. This one takes all other types that begin with `invoice.`.

    Delivery is at least once: the primary key makes a repeated message harmless. The fencing token is kept with the row: a
    store that others write to can refuse a token lower than the highest it has seen.
    """
    invoice = _read(work)
    with sqlite3.connect(DATABASE) as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS event (tenant TEXT, message_id TEXT, type TEXT, total REAL, token INTEGER,"
            " PRIMARY KEY (tenant, message_id))"
        )
        database.execute(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (work.tenant, work.message_id, work.type, invoice["total"], work.fencing_token),
        )
    database.close()


def _read(work: Work) -> dict[str, float]:
    """The invoice, or Reject: what cannot be read today cannot be read tomorrow, so it goes to the dead letters at once."""
    try:
        invoice = json.loads(work.payload)
        return {"total": float(invoice["total"])}
    except (ValueError, KeyError, TypeError) as error:
        raise Reject(f"no invoice: {error}") from error
