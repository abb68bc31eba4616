"""A Mortise client in Python, without generated code.

    pip install grpcio grpcio-reflection
    mortise dev                             # in another terminal
    python client.py 127.0.0.1:8502
"""

import sys

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

channel = grpc.insecure_channel(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8502")

# The server describes its API and the messages of every plugin, so the client needs no generated code.
pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
service = pool.FindServiceByName("hashicorp.consul.resource.ResourceService")


def call(method, **fields):
    method = service.methods_by_name[method]
    request, response = (message_factory.GetMessageClass(t) for t in (method.input_type, method.output_type))
    kind = channel.unary_stream if method.server_streaming else channel.unary_unary
    return kind(f"/{service.full_name}/{method.name}", request.SerializeToString, response.FromString)(request(**fields))


# A resource has an id, and data: the message of its type.
Resource = message_factory.GetMessageClass(pool.FindMessageTypeByName("hashicorp.consul.resource.Resource"))
Artist = message_factory.GetMessageClass(pool.FindMessageTypeByName("hashicorp.consul.internal.demo.v2.Artist"))
kind = {"group": "demo", "group_version": "v2", "kind": "Artist"}
korn = Resource(id={"type": kind, "name": "korn"})
korn.data.Pack(Artist(name="Korn"))

# Without a version a write creates or replaces. The plugin fills in the genre.
stored = call("Write", resource=korn).resource
artist = Artist()
stored.data.Unpack(artist)
print(f"stored {stored.id.name}, version {stored.version}:", artist)

# With the version, a write succeeds only if the resource has not changed meanwhile.
stored.metadata["rated"] = "yes"
stored = call("Write", resource=stored).resource

# A watch sends every existing resource, a mark, and then every change.
for event in call("WatchList", type=kind):
    if event.WhichOneof("event") == "end_of_snapshot":
        break
    print("there is", event.upsert.resource.id.name)

# The plugin refuses invalid data, with the reason.
korn.data.Pack(Artist())
try:
    call("Write", resource=korn)
except grpc.RpcError as error:
    print("refused:", error.details())

call("Delete", id=stored.id)
