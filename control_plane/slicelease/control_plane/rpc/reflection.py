"""Server reflection under both of its names.

May live here: the two registrations. May not know: our services.

grpcio-reflection serves v1alpha. Version 1 is the same protocol, message for message, under another package name; its
descriptors are made from those of v1alpha, for clients that reflect on the reflection service itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import _async as aio  # exported as `reflection.aio`, which the type checker cannot see
from grpc_reflection.v1alpha import reflection, reflection_pb2

ALPHA = "grpc.reflection.v1alpha"
V1 = "grpc.reflection.v1"
_V1_PATH = "grpc/reflection/v1/reflection.proto"


def _v1_file() -> descriptor_pb2.FileDescriptorProto:
    """The descriptors of v1: those of v1alpha under the other package."""
    file = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    file.name, file.package = _V1_PATH, V1
    file.ClearField("options")  # the packages of other languages, which are v1alpha's
    for message in file.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = _renamed(field.type_name)
    for method in (method for service in file.service for method in service.method):
        method.input_type, method.output_type = _renamed(method.input_type), _renamed(method.output_type)
    return file


def _renamed(type_name: str) -> str:
    return type_name.replace(f".{ALPHA}.", f".{V1}.")


def add_reflection(server: Any, services: Sequence[str]) -> None:
    """Registers reflection, for the given services and for itself, under v1alpha and v1."""
    _register_v1_descriptors()
    listed = (*services, reflection.SERVICE_NAME, f"{V1}.ServerReflection")
    reflection.enable_server_reflection(listed, server)
    handler = grpc.stream_stream_rpc_method_handler(
        aio.ReflectionServicer(listed).ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handlers = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{V1}.ServerReflection", handlers),))


def _register_v1_descriptors() -> None:
    pool = descriptor_pool.Default()
    try:
        pool.FindFileByName(_V1_PATH)
    except KeyError:
        pool.AddSerializedFile(_v1_file().SerializeToString())
