"""A client without generated stubs: it asks the server for every message.

Usage: reflect.py HOST:PORT    (pip install grpcio grpcio-reflection)
"""

import sys

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = "hashicorp.consul.resource.ResourceService"

channel = grpc.insecure_channel(sys.argv[1])
database = ProtoReflectionDescriptorDatabase(channel)
pool = descriptor_pool.DescriptorPool(database)
service = pool.FindServiceByName(SERVICE)


def message(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def call(method, **fields):
    """Calls a method by the service's descriptor."""
    descriptor = service.methods_by_name[method]
    request = message_factory.GetMessageClass(descriptor.input_type)(**fields)
    response = message_factory.GetMessageClass(descriptor.output_type)
    kind = channel.unary_stream if descriptor.server_streaming else channel.unary_unary
    stub = kind(
        f"/{SERVICE}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=response.FromString,
    )
    return stub(request, timeout=20)


def refused(method, code, says, **fields):
    try:
        call(method, **fields)
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert says in error.details(), error
    else:
        raise AssertionError(f"{method} was not refused")


Resource = message("hashicorp.consul.resource.Resource")
Artist = message("hashicorp.consul.internal.demo.v2.Artist")
Thing = message("mortise.test.v1.Thing")
TYPE = {"group": "demo", "group_version": "v2", "kind": "Artist"}
HERE = {"partition": "default", "namespace": "default"}


def artist(name, /, **fields):
    resource = Resource(id={"type": TYPE, "name": name})
    resource.data.Pack(Artist(**fields))
    return resource


def unpack(resource, kind=Artist):
    data = kind()
    assert resource.data.Unpack(data), resource
    return data


services = database.get_services()
assert SERVICE in services and "grpc.health.v1.Health" in services, services

# The plugin fills in a missing field, and reports a fault.
genres = Artist.DESCRIPTOR.fields_by_name["genre"].enum_type.values_by_name
korn = call("Write", resource=artist("korn", name="Korn")).resource
assert unpack(korn).genre == genres["GENRE_DISCO"].number, korn
assert korn.id.uid and korn.version and korn.generation, korn
refused("Write", grpc.StatusCode.INVALID_ARGUMENT, "artist.name required", resource=artist("nobody"))
refused("Read", grpc.StatusCode.NOT_FOUND, "resource not found", id={"type": TYPE, "tenancy": HERE, "name": "nobody"})

# A watch: the snapshot, its end, then changes.
events = call("WatchList", type=TYPE, tenancy=HERE)
assert next(events).upsert.resource == korn
assert next(events).WhichOneof("event") == "end_of_snapshot"
tool = call("Write", resource=artist("tool", name="Tool", genre=genres["GENRE_METAL"].number)).resource
assert next(events).upsert.resource == tool

listed = call("List", type=TYPE, tenancy=HERE).resources
assert [resource.id.name for resource in listed] == ["korn", "tool"], listed
assert call("List", type=TYPE, tenancy=HERE, name_prefix="to").resources == [tool]
assert call("Read", id=korn.id).resource == korn

# Compare-and-swap.
changed = Resource()
changed.CopyFrom(korn)
changed.metadata["seen"] = "yes"
changed = call("Write", resource=changed).resource
assert next(events).upsert.resource == changed
refused("Write", grpc.StatusCode.ABORTED, "CAS operation failed", resource=korn)

# A type of a plugin from the plugin folder.
thing = Resource(id={"type": {"group": "prior", "group_version": "v1", "kind": "Thing"}, "name": "one"})
thing.data.Pack(Thing(number=1990))
written = call("Write", resource=thing)
assert unpack(written.resource, Thing).number == 1990
assert [warning.summary for warning in written.warnings] == ["there was no year"], written.warnings

call("Delete", id=korn.id)
assert next(events).delete.resource.id == korn.id
call("Delete", id=korn.id)
assert [resource.id.name for resource in call("List", type=TYPE, tenancy=HERE).resources] == ["tool"]
events.cancel()
print("everything works")
