"""Messages as objects, by the descriptors of their .proto files: `load(descriptors)` makes them known, `message(NAME)` is one of them.

Calling a message makes an object of it, with the fields that the .proto names: `Device(model="thermometer").interval` is 0. This module
reads descriptors while the component is built, so a call of a hook finds the tables ready. protobuf's own runtime works as well, but adds
12 MiB to the component and to the memory of each call.

Fields of numbers that the .proto lacks are kept. Enums are numbers.
"""

import struct
from types import SimpleNamespace

import wire

REPEATED = 3
INT32, INT64, ENUM, BOOL, STRING, MESSAGE, BYTES, SINT32, SINT64 = 5, 3, 14, 8, 9, 11, 12, 17, 18
FIXED = {1: "<d", 2: "<f", 6: "<Q", 7: "<I", 15: "<i", 16: "<q"}
_known: dict[str, "Message"] = {}


class Field:
    """A field of a message: its number, its name and its type, as numbered in descriptor.proto."""

    def __init__(self, number, name, type=STRING, of=None, label=1, type_name="", presence=False):
        self.number, self.name, self.type, self.of, self.type_name = number, name, type, of, type_name
        self.repeated = label == REPEATED
        self.presence = presence or type == MESSAGE

    @property
    def is_map(self):
        return self.repeated and self.of is not None and self.of.is_map

    def empty(self):
        """The value of an absent field."""
        if self.repeated:
            return {} if self.is_map else []
        if self.presence:
            return None
        return {STRING: "", BYTES: b"", BOOL: False}.get(self.type, 0)

    def read(self, raw):
        if self.type == STRING:
            return raw.decode()
        if self.type == MESSAGE:
            return self.of.decode(raw)
        if self.type == BOOL:
            return raw != 0
        if self.type in FIXED:
            return struct.unpack(FIXED[self.type], raw)[0]
        if self.type in (INT32, INT64, ENUM) and raw >= 1 << 63:
            return raw - (1 << 64)
        if self.type in (SINT32, SINT64):
            return raw >> 1 ^ -(raw & 1)
        return raw

    def read_packed(self, raw):
        """Numbers of a list come in one piece."""
        if self.type in FIXED:
            return [value for value, in struct.iter_unpack(FIXED[self.type], raw)]
        values, at = [], 0
        while at < len(raw):
            value, at = wire.read_varint(raw, at)
            values.append(self.read(value))
        return values

    def write(self, value) -> bytes:
        if self.type == STRING:
            return wire.bytes_field(self.number, value.encode())
        if self.type == BYTES:
            return wire.bytes_field(self.number, value)
        if self.type == MESSAGE:
            return wire.bytes_field(self.number, self.of.encode(value))
        if self.type in FIXED:
            return wire.fixed_field(self.number, struct.pack(FIXED[self.type], value))
        if self.type in (SINT32, SINT64):
            value = value << 1 ^ value >> 63
        return wire.number_field(self.number, int(value))


class Message:
    """A kind of message."""

    def __init__(self, name, fields, is_map=False):
        self.name, self.fields, self.is_map = name, fields, is_map
        self.numbers = {one.number: one for one in fields}

    def __call__(self, **values):
        made = SimpleNamespace(**{one.name: one.empty() for one in self.fields}, unknown=b"")
        for name, value in values.items():
            if not hasattr(made, name):
                raise AttributeError(f"{self.name} has no field {name}")
            setattr(made, name, value)
        return made

    def decode(self, encoded: bytes):
        made = self()
        for number, raw, whole in wire.fields(encoded):
            field = self.numbers.get(number)
            if field is None:
                made.unknown += whole
            elif not field.repeated:
                setattr(made, field.name, field.read(raw))
            elif field.is_map:
                entry = field.read(raw)
                getattr(made, field.name)[entry.key] = entry.value
            elif isinstance(raw, bytes) and field.type not in (STRING, BYTES, MESSAGE):
                getattr(made, field.name).extend(field.read_packed(raw))
            else:
                getattr(made, field.name).append(field.read(raw))
        return made

    def encode(self, one) -> bytes:
        parts = []
        for field in self.fields:
            value = getattr(one, field.name)
            if field.is_map:
                parts += [field.write(field.of(key=key, value=value[key])) for key in sorted(value)]
            elif field.repeated:
                parts += map(field.write, value)
            elif value is not None and (value or field.presence or self.is_map):
                parts.append(field.write(value))
        return b"".join(parts) + one.unknown


# The part of descriptor.proto that is needed to read descriptors.
_FIELD = Message("", [
    Field(1, "name"), Field(3, "number", INT32), Field(4, "label", INT32), Field(5, "type", INT32), Field(6, "type_name"),
    Field(17, "presence", BOOL),
])
_OPTIONS = Message("", [Field(7, "map_entry", BOOL)])
_MESSAGE = Message("", [Field(1, "name"), Field(2, "field", MESSAGE, _FIELD, REPEATED), Field(7, "options", MESSAGE, _OPTIONS)])
_MESSAGE.numbers[3] = Field(3, "nested_type", MESSAGE, _MESSAGE, REPEATED)
_MESSAGE.fields.append(_MESSAGE.numbers[3])
_FILE = Message("", [Field(1, "name"), Field(2, "package"), Field(4, "message_type", MESSAGE, _MESSAGE, REPEATED)])
_SET = Message("", [Field(1, "file", MESSAGE, _FILE, REPEATED)])


def load(descriptors: bytes):
    """Makes the messages of a FileDescriptorSet known."""
    added = []

    def add(within, one):
        fields = [Field(f.number, f.name, f.type, None, f.label, f.type_name[1:], f.presence) for f in one.field]
        made = Message(f"{within}.{one.name}", fields, bool(one.options and one.options.map_entry))
        _known[made.name] = made
        added.append(made)
        for inner in one.nested_type:
            add(made.name, inner)

    for file in _SET.decode(descriptors).file:
        for one in file.message_type:
            add(file.package, one)
    for one in added:
        for field in one.fields:
            if field.type == MESSAGE:
                field.of = _known[field.type_name]


def message(name: str) -> Message:
    """The message of a name such as `fleet.v1.Device`."""
    return _known[name]
