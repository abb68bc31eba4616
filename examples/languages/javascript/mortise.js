// The beginning of an SDK: a plugin is declared by objects, and its hooks are ordinary functions.

import authorizer from "mortise:plugin/authorizer@0.1.0";
import kv from "mortise:plugin/kv@0.1.0";
import log from "mortise:plugin/log@0.1.0";
import resources from "mortise:plugin/resources@0.1.0";
import contract from "./generated/contract.js";
import { load, message } from "./messages.js";
import { Writer } from "./wire.js";

load(contract);
const [Resource, Status, ID] = ["Resource", "Status", "ID"].map((name) => message(`hashicorp.consul.resource.${name}`));
const Manifest = message("mortise.plugin.v1.Manifest");

const [NAMESPACE, NOT_FOUND, REUSE] = [3, 5, 1];
export const [TRUE, FALSE] = [1, 2];

// A resource with its data as an object.
class Typed {
    constructor(bytes, message) {
        this.message = message;
        this.resource = Resource.decode(bytes);
        this.data = message.decode(this.resource.data?.value ?? []);
    }

    get name() {
        return this.resource.id.name;
    }

    get metadata() {
        return this.resource.metadata;
    }

    // What a hook may change, in a form that can be compared.
    content() {
        return [this.message.encode(this.data), JSON.stringify(this.metadata)];
    }

    encode() {
        this.resource.data ??= { type_url: `type.googleapis.com/${this.message.name}` };
        this.resource.data.value = this.message.encode(this.data);
        return Resource.encode(this.resource);
    }
}

// Collects the diagnostics of a hook. Paths go from the data down: names of fields, places in lists.
class Diagnostics {
    said = [];

    error(summary, ...path) {
        this.#say(1, summary, path);
    }

    warning(summary, ...path) {
        this.#say(2, summary, path);
    }

    #say(severity, summary, path) {
        const step = (one) => (typeof one === "number" ? { tag: "index", val: one } : { tag: "field", val: one });
        this.said.push({ severity, path: path.length ? ["data", ...path].map(step) : [], summary, detail: "" });
    }
}

// Allows the call if the caller has the permission; else the host names the permission.
export const require = (permission, name) => (authorizer.allowed(permission, name) ? { tag: "allow" } : { tag: "deny", val: "" });

// Writes a line of the plugin's log.
export const info = (text, fields = {}) => log.write(3, text, Object.entries(fields));

// The calls of a reconciler into the host.
class Context {
    kv = kv;

    constructor(plugin, message) {
        Object.assign(this, { plugin, message });
    }

    // The resource as it is stored now, or null if it is gone.
    read(id) {
        try {
            return new Typed(resources.read(id), this.message);
        } catch (fault) {
            if (failure(fault)?.code === NOT_FOUND) return null;
            throw fault;
        }
    }

    // Sets the status of this controller, unless it says the same already.
    writeStatus(found, controller, ...conditions) {
        const key = `${this.plugin}/${controller}`;
        const status = Status.encode({ observed_generation: found.resource.generation, conditions });
        const stored = found.resource.status[key];
        if (stored && equal(Status.encode({ ...stored, updated_at: null }), status)) return false;
        resources.writeStatus(ID.encode(found.resource.id), "", key, status);
        return true;
    }
}

const equal = (a, b) => a.length === b.length && a.every((byte, at) => byte === b[at]);

// The record of a failure, from what a call into the host throws.
const failure = (fault) => fault?.payload ?? fault?.val ?? fault;

const typeName = (name) => {
    const [group, group_version, kind] = name.split(".");
    return { group, group_version, kind };
};

// A plugin: { name, version, areas, pureHooks, types, controllers }. With pureHooks, answers of mutate and validate depend on the
// arguments alone, and not on earlier calls. Its exports are what componentize-qjs looks for.
export function plugin(declared) {
    const { name, version, areas = [], pureHooks = false, types, controllers = [] } = declared;
    types.forEach((one) => load(one.descriptors));
    const manifest = Manifest.encode({
        name,
        version,
        areas,
        instances: pureHooks ? REUSE : 0,
        types: types.map((one) => ({
            ...typeName(one.name),
            scope: NAMESPACE,
            message: one.message,
            hooks: { mutate: !!one.mutate, validate: !!one.validate, authorize_write: !!one.authorizeWrite },
            printer_columns: Object.entries(one.columns ?? {}).map(([name, path]) => ({ name, path })),
        })),
        controllers: controllers.map((one) => ({ name: one.name, manages: typeName(one.manages), parallel: one.parallel ?? 1 })),
        // A message that is encoded twice is merged, so sets of descriptors are simply put one after the other.
        unknown: types.map((one) => embedded(3, one.descriptors)),
    });
    const typeOf = (bytes) => {
        if (types.length === 1) return types[0];
        const { group, group_version, kind } = Resource.decode(bytes).id.type;
        return types.find((one) => one.name === `${group}.${group_version}.${kind}`);
    };
    const typed = (bytes) => new Typed(bytes, message(typeOf(bytes).message));
    return {
        plugin: { describe: () => manifest },
        mutating: {
            mutate(input) {
                const found = typed(input);
                const [data, metadata] = found.content();
                typeOf(input).mutate(found);
                const [newData, newMetadata] = found.content();
                return equal(data, newData) && metadata === newMetadata ? null : found.encode();
            },
        },
        validating: {
            validate(input, prior) {
                const said = new Diagnostics();
                typeOf(input).validate(typed(input), prior && typed(prior), said);
                return said.said;
            },
        },
        authorizing: {
            read: (id, stored) => (stored ? require("operator:read", "") : { tag: "need-resource" }),
            write: (input) => typeOf(input).authorizeWrite(typed(input)),
            list: () => require("operator:read", ""),
        },
        controlling: {
            reconcile(controller, id) {
                const { manages, reconcile } = controllers.find((one) => one.name === controller);
                const { message: name_ } = types.find((one) => one.name === manages);
                try {
                    const again = reconcile(new Context(name, message(name_)), id, ID.decode(id).name);
                    return again === undefined ? { tag: "done" } : { tag: "requeue-after", val: again };
                } catch (fault) {
                    // A failure of the host becomes the error of the reconcile, which is tried again.
                    throw failure(fault)?.message ?? String(fault);
                }
            },
        },
    };
}

function embedded(number, bytes) {
    const out = new Writer();
    out.bytes(number, bytes);
    return out.done();
}
