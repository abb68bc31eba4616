"""The beginning of an SDK: a plugin is declared by values, and its hooks are ordinary functions.

What componentize-py generates from wit/ carries bytes; this module turns them into messages and back.
"""

from dataclasses import dataclass, field as default
from typing import Any, Callable

from componentize_py_types import Err
from google.protobuf.message import Message
from hashicorp.consul.resource import resource_pb2 as pb
from mortise.plugin.v1 import manifest_pb2
from wit_world.exports.authorizing import Decision_Allow, Decision_Deny, Decision_NeedResource
from wit_world.exports.controlling import Outcome_Done, Outcome_RequeueAfter
from wit_world.imports import authorizer, kv, log, resources
from wit_world.imports.types import Diagnostic, PathStep_Field, PathStep_Index

NOT_FOUND = 5
TRUE, FALSE = pb.Condition.STATE_TRUE, pb.Condition.STATE_FALSE


class Resource:
    """A resource with its data as a message. Fields that the message does not know are kept."""

    def __init__(self, encoded: bytes, message: type[Message]):
        self.pb = pb.Resource.FromString(encoded)
        self.data = message.FromString(self.pb.data.value)

    @property
    def name(self) -> str:
        return self.pb.id.name

    @property
    def metadata(self):
        return self.pb.metadata

    def encode(self) -> bytes:
        self.pb.data.value = self.data.SerializeToString()
        return self.pb.SerializeToString()


class Diagnostics:
    """Collects what a hook has to say."""

    def __init__(self):
        self.said: list[Diagnostic] = []

    def error(self, summary: str, *path: str | int):
        """Refuses the request. The path goes from the data down: names of fields, places in lists."""
        self._say(1, summary, path)

    def warning(self, summary: str, *path: str | int):
        """Travels back to the caller."""
        self._say(2, summary, path)

    def _say(self, severity: int, summary: str, path: tuple):
        steps = [PathStep_Index(one) if isinstance(one, int) else PathStep_Field(one) for one in ("data", *path)]
        self.said.append(Diagnostic(severity, steps if path else [], summary, ""))


def require(permission: str, name: str):
    """Allows the call if the caller has the permission; else the host names the permission."""
    return Decision_Allow() if authorizer.allowed(permission, name) else Decision_Deny("")


def info(message: str, **fields: str):
    """Writes a line of the plugin's log."""
    log.write(3, message, list(fields.items()))


class Context:
    """What a reconciler may ask of the host."""

    def __init__(self, plugin: "Plugin"):
        self._key = plugin.name
        self.kv = kv

    def read(self, encoded_id: bytes, message: type[Message]) -> Resource | None:
        """The resource as it is stored now, or None if it is gone."""
        try:
            return Resource(resources.read(encoded_id), message)
        except Err as fault:
            if fault.value.code == NOT_FOUND:
                return None
            raise

    def write_status(self, resource: Resource, controller: str, *conditions: pb.Condition) -> bool:
        """Sets the status of this controller, unless it says the same already."""
        key = f"{self._key}/{controller}"
        status = pb.Status(observed_generation=resource.pb.generation, conditions=conditions)
        if key in resource.pb.status:
            stored = resource.pb.status[key]
            if stored.observed_generation == status.observed_generation and list(stored.conditions) == list(conditions):
                return False
        resources.write_status(resource.pb.id.SerializeToString(), "", key, status.SerializeToString())
        return True


@dataclass
class ResourceType:
    """A type: its name as `group.version.Kind`, its message, its hooks. An absent hook has no effect."""

    name: str
    message: type[Message]
    mutate: Callable[[Resource], None] | None = None
    validate: Callable[[Resource, Resource | None, Diagnostics], None] | None = None
    authorize_write: Callable[[Resource], Any] | None = None
    columns: dict[str, str] = default(default_factory=dict)


@dataclass
class Controller:
    """A reconciler of a type. It gets the encoded id, and reads the resource by the context."""

    name: str
    manages: ResourceType
    reconcile: Callable[[Context, bytes, str], int | None]
    parallel: int = 1


def _type_name(name: str):
    group, version, kind = name.split(".")
    return {"group": group, "group_version": version, "kind": kind}


@dataclass
class Plugin:
    """A plugin. `export` makes of it what componentize-py looks for."""

    name: str
    version: str
    types: list[ResourceType]
    controllers: list[Controller] = default(default_factory=list)
    areas: list[str] = default(default_factory=list)

    def manifest(self) -> manifest_pb2.Manifest:
        """The description that the host asks for."""
        manifest = manifest_pb2.Manifest(name=self.name, version=self.version, areas=self.areas)
        for one in self.types:
            file = one.message.DESCRIPTOR.file
            _add_file(manifest.descriptors, file)
            manifest.types.add(
                **_type_name(one.name),
                scope=manifest_pb2.SCOPE_NAMESPACE,
                message=one.message.DESCRIPTOR.full_name,
                hooks={
                    "mutate": one.mutate is not None,
                    "validate": one.validate is not None,
                    "authorize_write": one.authorize_write is not None,
                },
                printer_columns=[{"name": name, "path": path} for name, path in one.columns.items()],
            )
        for one in self.controllers:
            manifest.controllers.add(name=one.name, manages=_type_name(one.manages.name), parallel=one.parallel)
        return manifest

    def type_of(self, encoded: bytes) -> ResourceType:
        """The declared type of a resource. With one type there is nothing to look for."""
        if len(self.types) == 1:
            return self.types[0]
        of = pb.Resource.FromString(encoded).id.type
        name = f"{of.group}.{of.group_version}.{of.kind}"
        return next(one for one in self.types if one.name == name)


def _add_file(files, file):
    """Adds a file of descriptors behind those that it imports."""
    for one in file.dependencies:
        _add_file(files, one)
    if all(one.name != file.name for one in files.file):
        files.file.add().ParseFromString(file.serialized_pb)


def export(plugin: Plugin):
    """The classes that componentize-py looks for, by the names of the exported interfaces."""
    encoded = plugin.manifest().SerializeToString(deterministic=True)

    class Describing:
        def describe(self) -> bytes:
            return encoded

    class Mutating:
        def mutate(self, input: bytes) -> bytes | None:
            one = plugin.type_of(input)
            resource = Resource(input, one.message)
            before = resource.pb.data.value, dict(resource.metadata)
            one.mutate(resource)
            after = resource.encode()
            return after if before != (resource.pb.data.value, dict(resource.metadata)) else None

    class Validating:
        def validate(self, input: bytes, prior: bytes | None) -> list[Diagnostic]:
            one = plugin.type_of(input)
            said = Diagnostics()
            one.validate(Resource(input, one.message), Resource(prior, one.message) if prior else None, said)
            return said.said

    class Authorizing:
        def read(self, id: bytes, stored: bytes | None):
            return Decision_NeedResource() if stored is None else require("operator:read", "")

        def write(self, input: bytes):
            one = plugin.type_of(input)
            return one.authorize_write(Resource(input, one.message))

        def list(self, of, where):
            return require("operator:read", "")

    class Controlling:
        def reconcile(self, controller: str, id: bytes):
            one = next(one for one in plugin.controllers if one.name == controller)
            try:
                again = one.reconcile(Context(plugin), id, pb.ID.FromString(id).name)
            except Err as fault:
                # A failure of the host becomes the error of the reconcile, which is tried again.
                raise Err(getattr(fault.value, "message", str(fault.value)))
            return Outcome_Done() if again is None else Outcome_RequeueAfter(again)

    return Describing, Mutating, Validating, Authorizing, Controlling
