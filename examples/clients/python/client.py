"""A client of Mortise in Python: docs/clients.md explains what it does, and README.md how to run it."""

import json
import os
import pathlib
import queue
import sys
import threading
import time

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

sys.path.append(str(pathlib.Path(__file__).parent / "proto"))

from goten.types import watch_type_pb2
from hashicorp.consul.internal.demo.v2 import demo_pb2
from hashicorp.consul.resource import resource_pb2, resource_pb2_grpc
from mortise.v1 import auth_service_pb2, auth_service_pb2_grpc, watch_service_pb2, watch_service_pb2_grpc

RESOURCES = "hashicorp.consul.resource.ResourceService"


def method_config(methods, codes):
    return {
        "name": [{"service": service, "method": method} for service, method in methods],
        "timeout": "30s",
        "retryPolicy": {
            "maxAttempts": 5,
            "initialBackoff": "0.2s",
            "maxBackoff": "5s",
            "backoffMultiplier": 2,
            "retryableStatusCodes": codes,
        },
    }


# Reads are repeated after both codes, writes only after the refusal of a rate: a write that ended with UNAVAILABLE may have been done.
# Watches have no rule here; they resume (`watch`). The health of the service decides which connections get calls.
SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "healthCheckConfig": {"serviceName": RESOURCES},
    "methodConfig": [
        method_config(
            [(RESOURCES, "Read"), (RESOURCES, "List"), ("mortise.v1.QueryService", "Search")], ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]
        ),
        method_config([(RESOURCES, "Write"), (RESOURCES, "Delete")], ["RESOURCE_EXHAUSTED"]),
    ],
}

OPTIONS = [
    ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
    # A restart takes seconds: do not wait for two minutes between two attempts.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Notices a server that went away without a word.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A list may be larger than the 4 MiB that gRPC accepts by default.
    ("grpc.max_receive_message_length", 64 << 20),
]

ARTIST = resource_pb2.Type(group="demo", group_version="v2", kind="Artist")

# Ends of a watch after which another attempt makes sense.
PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
}


def connect(address, token=None):
    """Makes a channel, which is meant to be shared by all calls of a program. It connects at the first call."""
    if address.startswith("unix:"):
        # The server knows the users of its machine.
        return grpc.insecure_channel(address, OPTIONS)
    credentials = grpc.ssl_channel_credentials(pathlib.Path(os.environ["MORTISE_CA_FILE"]).read_bytes())
    if token is not None:
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))
    return grpc.secure_channel(address, credentials, OPTIONS)


class Client:
    """The calls of this example, for one namespace."""

    def __init__(self, channel, namespace):
        self.resources = resource_pb2_grpc.ResourceServiceStub(channel)
        self.watches = watch_service_pb2_grpc.WatchServiceStub(channel)
        self.auth = auth_service_pb2_grpc.AuthServiceStub(channel)
        self.tenancy = resource_pb2.Tenancy(partition="default", namespace=namespace)

    def id(self, name):
        return resource_pb2.ID(type=ARTIST, name=name, tenancy=self.tenancy)

    def who(self):
        return self.auth.WhoAmI(auth_service_pb2.WhoAmIRequest(), timeout=10)

    def read(self, name):
        return self.resources.Read(resource_pb2.ReadRequest(id=self.id(name))).resource

    def write(self, resource):
        """Creates or replaces; with a version in the resource, it replaces only that version."""
        return self.resources.Write(resource_pb2.WriteRequest(resource=resource)).resource

    def delete(self, id):
        self.resources.Delete(resource_pb2.DeleteRequest(id=id))

    def artist(self, name, title):
        resource = resource_pb2.Resource(id=self.id(name))
        resource.data.Pack(demo_pb2.Artist(name=title))
        return resource

    def update(self, name, change):
        """Changes a resource in spite of other writers: when one was faster, it reads again. `change` may run several times."""
        while True:
            resource = self.read(name)
            change(resource)
            try:
                return self.write(resource)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.ABORTED:
                    raise

    def everything(self, resume_token=""):
        """All artists of the namespace: from the token on, or with a snapshot."""
        return watch_service_pb2.WatchResourcesRequest(
            type=watch_type_pb2.STATELESS, resource_type=ARTIST, tenancy=self.tenancy, resume_token=resume_token
        )

    def watch(self, show):
        """Keeps the artists of the namespace, and calls `show` with their sorted names when they have changed, until it returns False.

        It survives cuts and restarts. Returns how often it resumed, and how often it had to begin from a snapshot.
        """
        known, shown, token, wait = {}, None, "", 0.1
        resumed = reset = 0
        while True:
            stream = self.watches.WatchResources(self.everything(token), wait_for_ready=True)
            pending = dict(known) if token else {}
            first = bool(token)
            try:
                for message in stream:
                    wait = 0.1
                    if message.is_hard_reset:
                        reset += first
                        token, pending = "", {}
                    elif message.is_soft_reset:
                        pending = dict(known)
                    else:
                        resumed += first
                    first = False
                    for change in message.changes:
                        if change.HasField("current"):
                            pending[change.current.resource.id.name] = change.current.resource
                        else:
                            pending.pop(change.removed.name.name, None)
                    if not message.is_current:
                        continue
                    # The changes up to here belong together, and the token is behind them.
                    known, token = dict(pending), message.resume_token
                    if sorted(known) != shown:
                        shown = sorted(known)
                        if not show(shown):
                            stream.cancel()
                            return resumed, reset
            except grpc.RpcError as error:
                if error.code() not in PASSING:
                    # Another attempt would end the same: the token is unknown, a permission is missing, the request is wrong.
                    raise
            time.sleep(wait)
            wait = min(2 * wait, 5)


def artist_of(resource):
    artist = demo_pb2.Artist()
    resource.data.Unpack(artist)
    return artist


def code_of(call, *arguments, **options):
    """The code with which a call ends, and the fields that an INVALID_ARGUMENT is about."""
    try:
        call(*arguments, **options)
    except grpc.RpcError as error:
        words = [error.code().name]
        status = rpc_status.from_call(error)
        for detail in status.details if status else []:
            request = error_details_pb2.BadRequest()
            if detail.Unpack(request):
                words += [violation.field for violation in request.field_violations]
        return " ".join(words)
    return "OK"


def count(resource):
    resource.metadata["count"] = str(int(resource.metadata.get("count", "0")) + 1)


def main():
    namespace = os.environ["MORTISE_NAMESPACE"]
    address = os.environ["MORTISE_GRPC_ADDR"]
    token = pathlib.Path(os.environ["MORTISE_TOKEN_FILE"]).read_text().strip()
    channel = connect(address, token)
    client = Client(channel, namespace)

    print("I am", client.who().accessor_id)

    korn = client.write(client.artist("korn", "Korn"))
    print("wrote korn:", demo_pb2.Genre.Name(artist_of(korn).genre))
    print("read korn:", artist_of(client.read("korn")).name)

    # A version is of one state of the resource, a uid of one life.
    client.write(client.artist("korn", "Korn"))
    print("stale version:", code_of(client.write, korn))
    brief = client.write(client.artist("brief", "Brief"))
    client.delete(brief.id)
    client.write(client.artist("brief", "Brief"))
    brief.version = ""
    print("old uid:", code_of(client.write, brief))
    client.delete(client.id("brief"))

    print("missing:", code_of(client.read, "missing"))
    print("invalid:", code_of(client.write, client.artist("invalid", "")))
    print("other namespace:", code_of(Client(channel, "default").read, "korn"))
    print("no token:", code_of(Client(connect(address), namespace).read, "korn"))
    print("wrong token:", code_of(Client(connect(address, "wrong"), namespace).read, "korn"))

    # A deadline ends a call, a watch too.
    print("deadline:", code_of(lambda: list(client.watches.WatchResources(client.everything(), timeout=0.3))))

    writers = [threading.Thread(target=lambda: [client.update("korn", count) for _ in range(5)]) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    print("counted:", client.read("korn").metadata["count"])

    # The first failure of a group cancels its other calls; the channel stays.
    names = ["korn"] * 9 + ["missing"]
    group = [client.resources.Read.future(resource_pb2.ReadRequest(id=client.id(name))) for name in names]
    failed = next(call for call in as_ended(group) if call.code() != grpc.StatusCode.OK)
    for call in group:
        call.cancel()
    print("group:", failed.code().name, artist_of(client.read("korn")).name)

    # More reads than a caller has: the channel waits and repeats.
    print("reads:", len([client.read("korn") for _ in range(120)]))

    def show(names):
        print("watch:", *names, flush=True)
        return "stop" not in names

    print("resumed {}, reset {}".format(*client.watch(show)))

    if socket := os.environ.get("MORTISE_SOCKET"):
        print("socket:", *Client(connect(f"unix:{socket}"), namespace).who().policies)
    client.delete(client.id("korn"))
    print("done")


def as_ended(calls):
    """The calls in the order in which they end."""
    ended = queue.SimpleQueue()
    for call in calls:
        call.add_done_callback(ended.put)
    return (ended.get() for _ in calls)


if __name__ == "__main__":
    main()
