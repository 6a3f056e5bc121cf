"""AdminService: the calls of operators, put together.

May live here: the composition. May not know: what a call does.
"""

from __future__ import annotations

from slicelease.v1 import admin_service_pb2_grpc

from .admin_classes import ClassCalls
from .admin_queues import QueueCalls
from .admin_tenants import TenantCalls


class AdminService(TenantCalls, QueueCalls, ClassCalls, admin_service_pb2_grpc.AdminServiceServicer):
    """Implements AdminService."""
