"""The wire format of protobuf: varints, and fields with a number and a kind."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def fields(encoded: bytes):
    """Goes through a message: the number of each field, its value as a number or as bytes, and the whole field."""
    at = 0
    while at < len(encoded):
        begin = at
        tag, at = read_varint(encoded, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(encoded, at)
        else:
            if kind == BYTES:
                length, at = read_varint(encoded, at)
            elif kind in (FIXED64, FIXED32):
                length = 8 if kind == FIXED64 else 4
            else:
                raise ValueError(f"a field of kind {kind}")
            if at + length > len(encoded):
                raise ValueError("the message ends within a field")
            value, at = encoded[at : at + length], at + length
        yield tag >> 3, value, encoded[begin:at]


def read_varint(encoded: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    value = shift = 0
    while True:
        if at >= len(encoded):
            raise ValueError("the message ends within a number")
        one = encoded[at]
        at += 1
        value |= (one & 127) << shift
        if one < 128:
            return value, at
        shift += 7


def varint(value: int) -> bytes:
    """A number; a negative one as 64 bits."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value >= 128:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def fixed_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | (FIXED64 if len(value) == 8 else FIXED32)) + value
