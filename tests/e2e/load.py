"""A seeded, Zipf-skewed load published through PublishWorkBatch, with retries as a careful client makes them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import grpc

from slicelease.v1 import work_service_pb2, work_service_pb2_grpc

BATCH = 200


def zipf_counts(tenants: int, messages: int, seed: int) -> dict[str, int]:
    """How many messages each tenant gets: at least one, the n-th share falling as 1/n."""
    shares = [1 / (n + 1) for n in range(tenants)]
    rng = random.Random(seed)
    extra = rng.choices(range(tenants), weights=shares, k=messages - tenants)
    counts = {f"store-{n:03}": 1 for n in range(tenants)}
    for n in extra:
        counts[f"store-{n:03}"] += 1
    return counts


def batches(counts: dict[str, int], seed: int) -> Iterator[list[tuple[str, int]]]:
    """(tenant, number) in batches: tenants mixed at random, each tenant's numbers rising from 0."""
    order = [tenant for tenant, count in counts.items() for _ in range(count)]
    random.Random(seed).shuffle(order)
    following = dict.fromkeys(counts, 0)
    batch: list[tuple[str, int]] = []
    for tenant in order:
        batch.append((tenant, following[tenant]))
        following[tenant] += 1
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


class Publisher:
    """Publishes to several control planes in turn; what was not surely published is asked again with the same ids."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._channels = [grpc.insecure_channel(address) for address in addresses]
        self._stubs = [work_service_pb2_grpc.WorkServiceStub(channel) for channel in self._channels]
        self._next = 0
        self.retries = 0

    def publish(self, batch: Sequence[tuple[str, int]]) -> None:
        """Returns when every message of the batch is published; raises AssertionError on an error that is no outage."""
        left = [
            work_service_pb2.PublishWorkRequest(
                queue=f"tenants/{tenant}", payload=str(number).encode(), request_id=f"{tenant}-{number}"
            )
            for tenant, number in batch
        ]
        for _ in range(200):
            left = self._try(left)
            if not left:
                return
            self.retries += 1
        raise AssertionError(f"{len(left)} messages could not be published, first {left[0].queue}")

    def _try(self, requests: list[work_service_pb2.PublishWorkRequest]) -> list[work_service_pb2.PublishWorkRequest]:
        self._next += 1
        stub = self._stubs[self._next % len(self._stubs)]
        try:
            answer = stub.PublishWorkBatch(work_service_pb2.PublishWorkBatchRequest(requests=requests), timeout=20)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
            return requests
        return [request for request, result in zip(requests, answer.results, strict=True) if _again(result)]

    def close(self) -> None:
        """Closes the channels."""
        for channel in self._channels:
            channel.close()


def _again(result: work_service_pb2.PublishWorkResult) -> bool:
    if result.WhichOneof("result") == "published":
        return False
    retryable = {grpc.StatusCode.UNAVAILABLE.value[0], grpc.StatusCode.ABORTED.value[0]}
    assert result.error.code in retryable, result.error
    return True
