// A client of Mortise for Node: docs/clients.md explains what it does, and README.md how to run it.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const protobuf = require("protobufjs");

// Services are loaded from proto/ at the start, without generated code.
const PROTO = path.join(__dirname, "../../../proto");
const FILES = ["hashicorp/consul/resource/resource.proto", "mortise/v1/auth_service.proto", "mortise/v1/watch_service.proto"];
const services = grpc.loadPackageDefinition(
  loader.loadSync(FILES, { includeDirs: [PROTO], longs: String, enums: String, defaults: true, oneofs: true }),
);

// Messages inside of an Any: the data of resources, and the details of errors.
const messages = new protobuf.Root();
messages.resolvePath = (_, file) => [PROTO, path.dirname(require.resolve("protobufjs"))].map((at) => path.join(at, file)).find(fs.existsSync);
messages.loadSync("hashicorp/consul/internal/demo/v2/demo.proto");
const ARTIST = "hashicorp.consul.internal.demo.v2.Artist";
const Artist = messages.lookupType(ARTIST);
const Genre = messages.lookupEnum("hashicorp.consul.internal.demo.v2.Genre");
const details = protobuf.parse(`syntax = "proto3"; package google.rpc;
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message BadRequest {
    message FieldViolation { string field = 1; string description = 2; }
    repeated FieldViolation field_violations = 1;
  }`).root;

const RESOURCES = "hashicorp.consul.resource.ResourceService";
const retried = (names, codes) => ({
  name: names.map(([service, method]) => ({ service, method })),
  timeout: "30s",
  retryPolicy: { maxAttempts: 5, initialBackoff: "0.2s", maxBackoff: "5s", backoffMultiplier: 2, retryableStatusCodes: codes },
});

const OPTIONS = {
  // Reads are repeated after both codes, writes only after the refusal of a rate: a write that ended with UNAVAILABLE may have been done.
  // Watches have no rule here; they resume (`watch`). Node's gRPC does not know healthCheckConfig.
  "grpc.service_config": JSON.stringify({
    loadBalancingConfig: [{ round_robin: {} }],
    methodConfig: [
      retried([[RESOURCES, "Read"], [RESOURCES, "List"], ["mortise.v1.QueryService", "Search"]], ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]),
      retried([[RESOURCES, "Write"], [RESOURCES, "Delete"]], ["RESOURCE_EXHAUSTED"]),
    ],
  }),
  // A restart takes seconds: do not wait for two minutes between two attempts.
  "grpc.initial_reconnect_backoff_ms": 200,
  "grpc.max_reconnect_backoff_ms": 5_000,
  // Notices a server that went away without a word.
  "grpc.keepalive_time_ms": 30_000,
  "grpc.keepalive_timeout_ms": 10_000,
  // A list may be larger than the 4 MiB that gRPC accepts by default.
  "grpc.max_receive_message_length": 64 << 20,
};

const TYPE = { group: "demo", groupVersion: "v2", kind: "Artist" };

// Ends of a watch after which another attempt makes sense.
const { UNAVAILABLE, ABORTED, RESOURCE_EXHAUSTED, INTERNAL, UNKNOWN } = grpc.status;
const PASSING = [UNAVAILABLE, ABORTED, RESOURCE_EXHAUSTED, INTERNAL, UNKNOWN];

function tokenOf(secret) {
  const metadata = new grpc.Metadata();
  metadata.set("authorization", `Bearer ${secret}`);
  return grpc.credentials.createFromMetadataGenerator((_, callback) => callback(null, metadata));
}

/** Credentials of a channel. On the unix socket, the server knows the users of its machine. */
function credentialsOf(address, secret) {
  if (address.startsWith("unix:")) return grpc.credentials.createInsecure();
  const tls = grpc.credentials.createSsl(fs.readFileSync(process.env.MORTISE_CA_FILE));
  return secret ? grpc.credentials.combineChannelCredentials(tls, tokenOf(secret)) : tls;
}

/** The calls of this example, for one namespace. Clients with equal address, credentials and options share one connection. */
class Client {
  constructor(address, credentials, namespace) {
    const stub = (Service) => new Service(address, credentials, OPTIONS);
    this.resources = stub(services.hashicorp.consul.resource.ResourceService);
    this.watches = stub(services.mortise.v1.WatchService);
    this.auth = stub(services.mortise.v1.AuthService);
    this.tenancy = { partition: "default", namespace };
  }

  /** A unary call as a promise; `signal` cancels it. */
  call(stub, method, request, { signal, ...options } = {}) {
    return new Promise((resolve, reject) => {
      const call = stub[method](request, new grpc.Metadata(), options, (error, answer) => (error ? reject(error) : resolve(answer)));
      signal?.addEventListener("abort", () => call.cancel());
    });
  }

  id(name) {
    return { type: TYPE, name, tenancy: this.tenancy };
  }

  who() {
    return this.call(this.auth, "WhoAmI", {}, { deadline: Date.now() + 10_000 });
  }

  async read(name, options) {
    return (await this.call(this.resources, "Read", { id: this.id(name) }, options)).resource;
  }

  /** Creates or replaces; with a version in the resource, it replaces only that version. */
  async write(resource) {
    return (await this.call(this.resources, "Write", { resource })).resource;
  }

  delete(id) {
    return this.call(this.resources, "Delete", { id });
  }

  artist(name, title) {
    return { id: this.id(name), data: { type_url: `type.googleapis.com/${ARTIST}`, value: Artist.encode({ name: title }).finish() } };
  }

  /** Changes a resource in spite of other writers: when one was faster, it reads again. `change` may run several times. */
  async update(name, change) {
    for (;;) {
      const resource = await this.read(name);
      change(resource);
      try {
        return await this.write(resource);
      } catch (error) {
        if (error.code !== ABORTED) throw error;
      }
    }
  }

  /** All artists of the namespace: from the token on, or with a snapshot. */
  everything(resumeToken = "") {
    return { type: "STATELESS", resourceType: TYPE, tenancy: this.tenancy, resumeToken };
  }

  /**
   * Keeps the artists of the namespace, and calls `show` with their sorted names when they have changed, until it returns false. It
   * survives cuts and restarts. Returns how often it resumed, and how often it had to begin from a snapshot.
   */
  async watch(show) {
    let [known, shown, token, wait, resumed, reset] = [new Map(), null, "", 100, 0, 0];
    for (;;) {
      const stream = this.watches.WatchResources(this.everything(token), new grpc.Metadata({ waitForReady: true }));
      let pending = token ? new Map(known) : new Map();
      let first = token !== "";
      try {
        for await (const message of stream) {
          wait = 100;
          if (message.isHardReset) {
            reset += first ? 1 : 0;
            [token, pending] = ["", new Map()];
          } else if (message.isSoftReset) {
            pending = new Map(known);
          } else {
            resumed += first ? 1 : 0;
          }
          first = false;
          for (const { current, removed } of message.changes) {
            if (current) pending.set(current.resource.id.name, current.resource);
            else pending.delete(removed.name.name);
          }
          if (!message.isCurrent) continue;
          // The changes up to here belong together, and the token is behind them.
          [known, token] = [new Map(pending), message.resumeToken];
          const names = [...known.keys()].sort().join(" ");
          if (names === shown) continue;
          shown = names;
          if (!show(names)) return { resumed, reset };
        }
      } catch (error) {
        // Otherwise another attempt would end the same: the token is unknown, a permission is missing, the request is wrong.
        if (!PASSING.includes(error.code)) throw error;
      } finally {
        stream.on("error", () => {});
        stream.cancel();
      }
      await sleep(wait);
      wait = Math.min(2 * wait, 5_000);
    }
  }
}

function artistOf(resource) {
  return Artist.decode(resource.data.value);
}

/** The code with which a call ends, and the fields that an INVALID_ARGUMENT is about. */
async function codeOf(call) {
  try {
    await call;
    return "OK";
  } catch (error) {
    const words = [grpc.status[error.code]];
    for (const bytes of error.metadata?.get("grpc-status-details-bin") ?? []) {
      for (const { type_url, typeUrl = type_url, value } of details.lookupType("google.rpc.Status").decode(bytes).details) {
        if (typeUrl !== "type.googleapis.com/google.rpc.BadRequest") continue;
        words.push(...details.lookupType("google.rpc.BadRequest").decode(value).fieldViolations.map(({ field }) => field));
      }
    }
    return words.join(" ");
  }
}

async function main() {
  const { MORTISE_GRPC_ADDR: address, MORTISE_NAMESPACE: namespace, MORTISE_TOKEN_FILE: file, MORTISE_SOCKET: socket } = process.env;
  const secret = fs.readFileSync(file, "utf8").trim();
  const credentials = credentialsOf(address, secret);
  const client = new Client(address, credentials, namespace);

  console.log("I am", (await client.who()).accessorId);

  const korn = await client.write(client.artist("korn", "Korn"));
  console.log("wrote korn:", Genre.valuesById[artistOf(korn).genre]);
  console.log("read korn:", artistOf(await client.read("korn")).name);

  // A version is of one state of the resource, a uid of one life.
  await client.write(client.artist("korn", "Korn"));
  console.log("stale version:", await codeOf(client.write(korn)));
  const brief = await client.write(client.artist("brief", "Brief"));
  await client.delete(brief.id);
  await client.write(client.artist("brief", "Brief"));
  console.log("old uid:", await codeOf(client.write({ ...brief, version: "" })));
  await client.delete(client.id("brief"));

  console.log("missing:", await codeOf(client.read("missing")));
  console.log("invalid:", await codeOf(client.write(client.artist("invalid", ""))));
  console.log("other namespace:", await codeOf(new Client(address, credentials, "default").read("korn")));
  const anonymous = new Client(address, credentialsOf(address), namespace);
  console.log("no token:", await codeOf(anonymous.read("korn")));
  console.log("wrong token:", await codeOf(anonymous.read("korn", { credentials: tokenOf("wrong") })));

  // A deadline ends a call, a watch too.
  const ending = async () => {
    for await (const _ of client.watches.WatchResources(client.everything(), { deadline: Date.now() + 300 }));
  };
  console.log("deadline:", await codeOf(ending()));

  const count = ({ metadata }) => (metadata.count = String(Number(metadata.count ?? 0) + 1));
  const writer = async () => {
    for (let n = 0; n < 5; n++) await client.update("korn", count);
  };
  await Promise.all([writer(), writer()]);
  console.log("counted:", (await client.read("korn")).metadata.count);

  // The first failure of a group cancels its other calls; the channel stays.
  const group = new AbortController();
  const names = [...Array(9).fill("korn"), "missing"];
  const failed = await codeOf(Promise.all(names.map((name) => client.read(name, { signal: group.signal }))));
  group.abort();
  console.log("group:", failed, artistOf(await client.read("korn")).name);

  // More reads than a caller has: the channel waits and repeats.
  let answered = 0;
  for (; answered < 120; answered++) await client.read("korn");
  console.log("reads:", answered);

  const { resumed, reset } = await client.watch((names) => {
    console.log("watch:", names);
    return !names.split(" ").includes("stop");
  });
  console.log(`resumed ${resumed}, reset ${reset}`);

  if (socket) {
    const local = await new Client(`unix:${socket}`, credentialsOf("unix:"), namespace).who();
    console.log("socket:", local.policies.join(" "));
  }
  await client.delete(client.id("korn"));
  console.log("done");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
