"""The beginning of an SDK: a plugin is declared by values, and its hooks are ordinary functions.

The code that componentize-py generates from wit/ carries bytes; this module turns them into messages and back.
"""

from dataclasses import dataclass, field as default
from typing import Any, Callable

import generated
from componentize_py_types import Err
from messages import Message, load, message
from wit_world.exports.authorizing import Decision_Allow, Decision_Deny, Decision_NeedResource
from wit_world.exports.controlling import Outcome_Done, Outcome_RequeueAfter
from wit_world.imports import authorizer, kv, log, resources
from wit_world.imports.types import Diagnostic, PathStep_Field, PathStep_Index

load(generated.CONTRACT)
RESOURCE, STATUS, ID, CONDITION, ANY = map(message, [
    "hashicorp.consul.resource.Resource",
    "hashicorp.consul.resource.Status",
    "hashicorp.consul.resource.ID",
    "hashicorp.consul.resource.Condition",
    "google.protobuf.Any",
])
MANIFEST, RESOURCE_TYPE, CONTROLLER, HOOKS, COLUMN, TYPE_NAME, FILES = map(message, [
    "mortise.plugin.v1.Manifest",
    "mortise.plugin.v1.ResourceType",
    "mortise.plugin.v1.Controller",
    "mortise.plugin.v1.Hooks",
    "mortise.plugin.v1.PrinterColumn",
    "mortise.plugin.v1.TypeName",
    "google.protobuf.FileDescriptorSet",
])

NOT_FOUND, NAMESPACE, REUSE = 5, 3, 1
TRUE, FALSE = 1, 2


class Resource:
    """A resource with its data as a message. Fields that the message does not know are kept."""

    def __init__(self, encoded: bytes, message: Message):
        self.message = message
        self.pb = RESOURCE.decode(encoded)
        self.data = message.decode(self.pb.data.value if self.pb.data else b"")

    @property
    def name(self) -> str:
        return self.pb.id.name

    @property
    def metadata(self):
        return self.pb.metadata

    def content(self):
        """What a hook may change, in a form that can be compared."""
        return self.message.encode(self.data), dict(self.metadata)

    def encode(self) -> bytes:
        if self.pb.data is None:
            self.pb.data = ANY(type_url=f"type.googleapis.com/{self.message.name}")
        self.pb.data.value = self.message.encode(self.data)
        return RESOURCE.encode(self.pb)


class Diagnostics:
    """Collects the diagnostics of a hook."""

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


def condition(type: str, state: int, reason: str, text: str):
    """One observation about a resource: TRUE or FALSE."""
    return CONDITION(type=type, state=state, reason=reason, message=text)


def info(message: str, **fields: str):
    """Writes a line of the plugin's log."""
    log.write(3, message, list(fields.items()))


class Context:
    """The calls of a reconciler into the host."""

    def __init__(self, plugin: "Plugin"):
        self._key = plugin.name
        self.kv = kv

    def read(self, encoded_id: bytes, message: Message) -> Resource | None:
        """The resource as it is stored now, or None if it is gone."""
        try:
            return Resource(resources.read(encoded_id), message)
        except Err as fault:
            if fault.value.code == NOT_FOUND:
                return None
            raise

    def write_status(self, resource: Resource, controller: str, *conditions) -> bool:
        """Sets the status of this controller, unless it says the same already."""
        key = f"{self._key}/{controller}"
        status = STATUS(observed_generation=resource.pb.generation, conditions=list(conditions))
        stored = resource.pb.status.get(key)
        if stored and (stored.observed_generation, stored.conditions) == (status.observed_generation, status.conditions):
            return False
        resources.write_status(ID.encode(resource.pb.id), "", key, STATUS.encode(status))
        return True


@dataclass
class ResourceType:
    """A type: its name as `group.version.Kind`, its message, its hooks. An absent hook has no effect."""

    name: str
    message: Message
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
    descriptors: bytes
    types: list[ResourceType]
    controllers: list[Controller] = default(default_factory=list)
    areas: list[str] = default(default_factory=list)
    # Whether mutate and validate are pure: an answer depends on the arguments alone, and not on earlier calls.
    pure_hooks: bool = False

    def manifest(self) -> bytes:
        """The description that the host asks for."""
        types = [
            RESOURCE_TYPE(
                **_type_name(one.name),
                scope=NAMESPACE,
                message=one.message.name,
                hooks=HOOKS(
                    mutate=one.mutate is not None,
                    validate=one.validate is not None,
                    authorize_write=one.authorize_write is not None,
                ),
                printer_columns=[COLUMN(name=name, path=path) for name, path in one.columns.items()],
            )
            for one in self.types
        ]
        controllers = [
            CONTROLLER(name=one.name, manages=TYPE_NAME(**_type_name(one.manages.name)), parallel=one.parallel)
            for one in self.controllers
        ]
        return MANIFEST.encode(
            MANIFEST(
                name=self.name,
                version=self.version,
                descriptors=FILES.decode(self.descriptors),
                types=types,
                controllers=controllers,
                areas=self.areas,
                instances=REUSE if self.pure_hooks else 0,
            )
        )

    def type_of(self, encoded: bytes) -> ResourceType:
        """The declared type of a resource. With one type there is nothing to look for."""
        if len(self.types) == 1:
            return self.types[0]
        of = RESOURCE.decode(encoded).id.type
        name = f"{of.group}.{of.group_version}.{of.kind}"
        return next(one for one in self.types if one.name == name)


def export(plugin: Plugin):
    """The classes that componentize-py looks for, by the names of the exported interfaces."""
    encoded = plugin.manifest()

    class Describing:
        def describe(self) -> bytes:
            return encoded

    class Mutating:
        def mutate(self, input: bytes) -> bytes | None:
            one = plugin.type_of(input)
            resource = Resource(input, one.message)
            before = resource.content()
            one.mutate(resource)
            return resource.encode() if resource.content() != before else None

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
                again = one.reconcile(Context(plugin), id, ID.decode(id).name)
            except Err as fault:
                # A failure of the host becomes the error of the reconcile, which is tried again.
                raise Err(getattr(fault.value, "message", str(fault.value)))
            return Outcome_Done() if again is None else Outcome_RequeueAfter(again)

    return Describing, Mutating, Validating, Authorizing, Controlling
