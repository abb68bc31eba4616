// Messages as plain objects, by the descriptors of their .proto files: `load(descriptors)` makes them known, `message(NAME)` encodes and
// decodes. This runs while the component is built, so a call of a hook finds the tables ready.
//
// Names of fields are those of the .proto. Fields of numbers that the .proto lacks are kept in `unknown`. Enums are numbers.

import { decodeText, encodeText } from "./utf8.js";
import { read, Writer } from "./wire.js";

const [DOUBLE, FLOAT, FIXED64, FIXED32, BOOL, STRING, MESSAGE, BYTES, SFIXED32, SFIXED64] = [1, 2, 6, 7, 8, 9, 11, 12, 15, 16];
const REPEATED = 3;
const known = new Map();

class Message {
    constructor(name, fields, isMap = false) {
        Object.assign(this, { name, fields, isMap, numbers: new Map(fields.map((one) => [one.number, one])) });
    }

    // An object with every field that has a value in an empty message.
    empty() {
        const made = {};
        for (const one of this.fields) {
            made[one.name] = one.label !== REPEATED ? zero(one) : one.of?.isMap ? {} : [];
        }
        return made;
    }

    decode(bytes) {
        const made = this.empty();
        read(bytes, (number, raw, from, to) => {
            const field = this.numbers.get(number);
            if (!field) return (made.unknown ??= []).push(bytes.slice(from, to));
            if (field.label !== REPEATED) return (made[field.name] = value(field, raw));
            if (field.of?.isMap) {
                const entry = value(field, raw);
                return (made[field.name][entry.key] = entry.value);
            }
            // Numbers of a list come in one piece.
            const packed = typeof raw !== "number" && ![STRING, BYTES, MESSAGE].includes(field.type);
            if (packed && raw.length > 0) return made[field.name].push(...unpacked(field, raw));
            made[field.name].push(value(field, raw));
        });
        return made;
    }

    encode(object) {
        const out = new Writer();
        for (const one of this.fields) {
            const found = object[one.name];
            if (found === undefined || found === null) continue;
            if (one.label !== REPEATED) {
                if (this.isMap || one.type === MESSAGE || one.presence || !isZero(found)) put(out, one, found);
            } else if (one.of?.isMap) {
                for (const key of Object.keys(found)) put(out, one, { key, value: found[key] });
            } else {
                for (const item of found) put(out, one, item);
            }
        }
        for (const raw of object.unknown ?? []) out.raw(raw);
        return out.done();
    }
}

const isZero = (found) => found === "" || found === 0 || found === false || found.length === 0;

function zero(field) {
    if (field.type === MESSAGE || field.presence) return null;
    if (field.type === STRING) return "";
    if (field.type === BYTES) return new Uint8Array(0);
    return field.type === BOOL ? false : 0;
}

const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

function value(field, raw) {
    switch (field.type) {
        case STRING: return decodeText(raw);
        case BYTES: return raw.slice();
        case MESSAGE: return field.of.decode(raw);
        case BOOL: return raw !== 0;
        case DOUBLE: return view(raw).getFloat64(0, true);
        case FLOAT: return view(raw).getFloat32(0, true);
        case FIXED64: case SFIXED64: return Number(view(raw).getBigInt64(0, true));
        case FIXED32: return view(raw).getUint32(0, true);
        case SFIXED32: return view(raw).getInt32(0, true);
        default: return raw;
    }
}

function unpacked(field, raw) {
    const values = [];
    const width = { [DOUBLE]: 8, [FIXED64]: 8, [SFIXED64]: 8, [FLOAT]: 4, [FIXED32]: 4, [SFIXED32]: 4 }[field.type];
    if (width) {
        for (let at = 0; at < raw.length; at += width) values.push(value(field, raw.subarray(at, at + width)));
        return values;
    }
    for (let at = 0; at < raw.length; ) {
        let number = 0;
        for (let scale = 1; ; scale *= 128) {
            number += (raw[at] & 127) * scale;
            if (raw[at++] < 128) break;
        }
        values.push(value(field, number));
    }
    return values;
}

function put(out, field, found) {
    const fixed = (width, write) => {
        const bytes = new Uint8Array(width);
        write(view(bytes));
        out.fixed(field.number, bytes);
    };
    switch (field.type) {
        case STRING: return out.bytes(field.number, encodeText(found));
        case BYTES: return out.bytes(field.number, found);
        case MESSAGE: return out.bytes(field.number, field.of.encode(found));
        case BOOL: return out.number(field.number, found ? 1 : 0);
        case DOUBLE: return fixed(8, (at) => at.setFloat64(0, found, true));
        case FLOAT: return fixed(4, (at) => at.setFloat32(0, found, true));
        case FIXED64: case SFIXED64: return fixed(8, (at) => at.setBigInt64(0, BigInt(found), true));
        case FIXED32: case SFIXED32: return fixed(4, (at) => at.setUint32(0, found, true));
        default: return out.number(field.number, found);
    }
}

// The part of descriptor.proto that is needed to read descriptors; all else is kept or passed over.
const field = (number, name, type = STRING, of = undefined, label = 1) => ({ number, name, type, of, label });
const FIELD = new Message("", [
    field(1, "name"), field(3, "number", 5), field(4, "label", 5), field(5, "type", 5), field(6, "type_name"), field(17, "presence", BOOL),
]);
const OPTIONS = new Message("", [field(7, "map_entry", BOOL)]);
const DESCRIPTOR = new Message("", [field(1, "name"), field(2, "field", MESSAGE, FIELD, REPEATED), field(7, "options", MESSAGE, OPTIONS)]);
DESCRIPTOR.numbers.set(3, field(3, "nested_type", MESSAGE, DESCRIPTOR, REPEATED));
DESCRIPTOR.fields.push(DESCRIPTOR.numbers.get(3));
const FILE = new Message("", [field(1, "name"), field(2, "package"), field(4, "message_type", MESSAGE, DESCRIPTOR, REPEATED)]);
const SET = new Message("", [field(1, "file", MESSAGE, FILE, REPEATED)]);

// Makes the messages of a FileDescriptorSet known.
export function load(descriptors) {
    const added = [];
    const add = (within, one) => {
        const made = new Message(`${within}.${one.name}`, one.field, one.options?.map_entry);
        known.set(made.name, made);
        added.push(made);
        for (const inner of one.nested_type) add(made.name, inner);
    };
    for (const file of SET.decode(descriptors).file) file.message_type.forEach((one) => add(file.package, one));
    for (const one of added) {
        for (const each of one.fields) each.of = each.type === MESSAGE ? message(each.type_name.slice(1)) : undefined;
    }
}

// The message of a name such as "fleet.v1.Device".
export function message(name) {
    const found = known.get(name);
    if (!found) throw new Error(`no descriptor of ${name} was loaded`);
    return found;
}
