// The wire format of protobuf: varints, and fields with a number and a kind.

const [VARINT, FIXED64, BYTES, FIXED32] = [0, 1, 2, 5];

// Reads a message field by field. `field(number, value, from, to)` gets a number, or the bytes of the field; `from` and `to` are its place.
export function read(bytes, field) {
    let at = 0;
    const varint = () => {
        // Numbers beyond 2^53 lose their last bits, as all numbers of JavaScript.
        for (let value = 0, scale = 1; ; scale *= 128) {
            if (at >= bytes.length) throw new Error("the message ends within a number");
            const one = bytes[at++];
            value += (one & 127) * scale;
            if (one < 128) return value;
        }
    };
    const take = (length) => {
        if (at + length > bytes.length) throw new Error("the message ends within a field");
        at += length;
        return bytes.subarray(at - length, at);
    };
    while (at < bytes.length) {
        const from = at;
        const tag = varint();
        const kind = tag & 7;
        const value =
            kind === VARINT ? varint() : kind === BYTES ? take(varint()) : kind === FIXED64 ? take(8) : kind === FIXED32 ? take(4) : null;
        if (value === null) throw new Error(`a field of kind ${kind}`);
        field(Math.floor(tag / 8), value, from, at);
    }
}

// Collects fields of a message.
export class Writer {
    #parts = [];
    #length = 0;

    raw(bytes) {
        this.#parts.push(bytes);
        this.#length += bytes.length;
    }

    number(number, value) {
        this.raw(varint(number * 8 + VARINT));
        this.raw(varint(value));
    }

    bytes(number, value) {
        this.raw(varint(number * 8 + BYTES));
        this.raw(varint(value.length));
        this.raw(value);
    }

    fixed(number, value) {
        this.raw(varint(number * 8 + (value.length === 8 ? FIXED64 : FIXED32)));
        this.raw(value);
    }

    done() {
        const all = new Uint8Array(this.#length);
        let at = 0;
        for (const part of this.#parts) {
            all.set(part, at);
            at += part.length;
        }
        return all;
    }
}

function varint(value) {
    const bytes = [];
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
    bytes.push(value);
    return bytes;
}
