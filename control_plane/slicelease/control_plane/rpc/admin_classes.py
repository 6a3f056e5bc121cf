"""AdminService: priority classes.

May live here: these calls. May not know: AMQP, Redis.
"""

from __future__ import annotations

from typing import Any

from slicelease.control_plane.domain import names
from slicelease.control_plane.domain.commands import (
    Command,
    CreateClass,
    DeleteClass,
    GetClass,
    ListClasses,
    UpdateClass,
)
from slicelease.control_plane.domain.outcomes import ClassView, Deleted
from slicelease.v1 import admin_service_pb2 as pb

from . import convert
from .admin_calls import AdminCalls, note_change
from .checks import request_key
from .masks import merged


class ClassCalls(AdminCalls):
    """Implements the calls about priority classes."""

    async def CreatePriorityClass(self, request: pb.CreatePriorityClassRequest, context: Any) -> pb.CreatePriorityClassResponse:
        """Creates a class; its attention queue is there before anything can be announced in it."""
        class_id = names.check_class_id("priority_class_id", request.priority_class_id)
        policy = convert.class_policy(request.priority_class)
        key = request_key(request)
        dry_run = CreateClass(class_id, policy, validate_only=True)
        shown = await self._dry_run(dry_run, ClassView, repeatable=key is not None and not request.validate_only)
        if request.validate_only and shown is not None:
            return pb.CreatePriorityClassResponse(priority_class=convert.priority_class(shown))
        if shown is not None:
            await self._broker.declare_topology([class_id])
        view = await self._one(CreateClass(class_id, policy, request=key), ClassView)
        note_change("priority class created", names.class_name(class_id), context)
        return pb.CreatePriorityClassResponse(priority_class=convert.priority_class(view))

    async def GetPriorityClass(self, request: pb.GetPriorityClassRequest, context: Any) -> pb.GetPriorityClassResponse:
        """Reads one class."""
        view = await self._one(GetClass(names.parse_class("name", request.name)), ClassView)
        return pb.GetPriorityClassResponse(priority_class=convert.priority_class(view))

    async def ListPriorityClasses(self, request: pb.ListPriorityClassesRequest, context: Any) -> pb.ListPriorityClassesResponse:
        """Reads a page of them."""
        items, token = await self._page("priorityClasses", request, None, ListClasses)
        return pb.ListPriorityClassesResponse(priority_classes=map(convert.priority_class, items), next_page_token=token)

    async def UpdatePriorityClass(self, request: pb.UpdatePriorityClassRequest, context: Any) -> pb.UpdatePriorityClassResponse:
        """Changes what the mask says."""
        class_id = names.parse_class("priority_class.name", request.priority_class.name)

        async def attempt() -> tuple[Command, Any]:
            current = await self._one(GetClass(class_id), ClassView)
            shown, mask = convert.priority_class(current), request.update_mask.paths
            wanted = merged(shown, request.priority_class, mask, convert.CLASS_WRITABLE, convert.TIMES)
            policy = convert.class_policy(wanted)
            etag = request.priority_class.etag or current.etag
            return await self._execute(UpdateClass(class_id, policy, etag, request.validate_only, request_key(request)))

        view = await self._updated(request.priority_class.etag, attempt, ClassView)
        if not request.validate_only:
            note_change("priority class updated", names.class_name(class_id), context)
        return pb.UpdatePriorityClassResponse(priority_class=convert.priority_class(view))

    async def DeletePriorityClass(self, request: pb.DeletePriorityClassRequest, context: Any) -> pb.DeletePriorityClassResponse:
        """Deletes a class that nothing names. Its attention queue stays: workers may still consume it."""
        class_id = names.parse_class("name", request.name)
        await self._one(DeleteClass(class_id, request.etag, request.validate_only, request_key(request)), Deleted)
        if not request.validate_only:
            note_change("priority class deleted", names.class_name(class_id), context)
        return pb.DeletePriorityClassResponse()
