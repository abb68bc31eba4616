#!/usr/bin/env python3
"""A client in 90 lines without built-in types: it asks the server by reflection.

    pip install grpcio grpcio-reflection
    mortise.py write  demo.v2.Artist korn '{"name": "Korn"}' [--owner demo.v2.Artist/other] [--dry-run]
    mortise.py read   demo.v2.Artist korn
    mortise.py list   demo.v2.Artist
    mortise.py watch  demo.v2.Artist --count 3
    mortise.py delete demo.v2.Artist korn

The server is MORTISE_GRPC_ADDR, by default 127.0.0.1:8502. Answers are JSON; the exit code 1 is a refusal of the server.
"""
import argparse
import json
import os
import sys

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

API = "hashicorp.consul.resource."
channel = grpc.insecure_channel(os.environ.get("MORTISE_GRPC_ADDR", "127.0.0.1:8502"))
pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))

# The messages of the types' data, by group. (mortise.v1.TypeService lists them, too.)
MESSAGES = {"demo": "hashicorp.consul.internal.demo.{version}.{kind}", "tenancy": "hashicorp.consul.tenancy.{version}.{kind}"}


def message(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def call(method, request, response, stream=False):
    path = f"/{API}ResourceService/{method}"
    make = channel.unary_stream if stream else channel.unary_unary
    stub = make(path, request_serializer=lambda m: m.SerializeToString(), response_deserializer=message(API + response).FromString)
    return stub(request)


def fill_id(target, gvk, name):
    target.type.group, target.type.group_version, target.type.kind = gvk.split(".")
    target.name = name


def show(proto):
    print(json_format.MessageToJson(proto, indent=None, descriptor_pool=pool, preserving_proto_field_name=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["write", "read", "list", "watch", "delete"])
    parser.add_argument("type")
    parser.add_argument("name", nargs="?")
    parser.add_argument("data", nargs="?", default="{}")
    parser.add_argument("--owner")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--count", type=int, default=0, help="events after which a watch ends; 0 means never")
    args = parser.parse_args()
    group, version, kind = args.type.split(".")

    if args.verb == "write":
        request = message(API + ("MutateAndValidateRequest" if args.dry_run else "WriteRequest"))()
        fill_id(request.resource.id, args.type, args.name)
        if args.owner:
            fill_id(request.resource.owner, *args.owner.split("/"))
            request.resource.owner.tenancy.partition = request.resource.owner.tenancy.namespace = "default"
        content = message(MESSAGES[group].format(version=version, kind=kind))()
        request.resource.data.Pack(json_format.ParseDict(json.loads(args.data), content))
        verb = "MutateAndValidate" if args.dry_run else "Write"
        show(call(verb, request, verb + "Response"))
    elif args.verb == "read":
        request = message(API + "ReadRequest")()
        fill_id(request.id, args.type, args.name)
        show(call("Read", request, "ReadResponse").resource)
    elif args.verb == "delete":
        request = message(API + "DeleteRequest")()
        fill_id(request.id, args.type, args.name)
        call("Delete", request, "DeleteResponse")
    else:
        request = message(API + ("ListRequest" if args.verb == "list" else "WatchListRequest"))()
        request.type.group, request.type.group_version, request.type.kind = group, version, kind
        request.tenancy.SetInParent()
        if args.verb == "list":
            for resource in call("List", request, "ListResponse").resources:
                show(resource)
        else:
            for seen, event in enumerate(call("WatchList", request, "WatchEvent", stream=True), 1):
                show(event)
                if seen == args.count:
                    return


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
