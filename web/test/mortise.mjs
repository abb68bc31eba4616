// A Mortise server of the test, on ports that the system picks.
import { spawn } from "node:child_process";
import { once } from "node:events";

const environment = () => {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("MORTISE_"));
  return { ...Object.fromEntries(kept), MORTISE_CONTEXTS: "/dev/null" };
};

export class Mortise {
  /** @param {string} binary @param {string[]} args */
  constructor(binary, args) {
    this.binary = binary;
    this.args = args;
  }

  async start() {
    // A restart takes the same ports: a page that the server itself serves finds it again.
    const addresses = ["--grpc-addr", this.grpc ?? "127.0.0.1:0", "--http-addr", this.http ?? "127.0.0.1:0"];
    const child = spawn(this.binary, [...this.args, ...addresses], {
      env: { ...environment(), MORTISE_DNS_ADDR: "127.0.0.1:0" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    this.errors = "";
    child.stderr.on("data", (text) => (this.errors = (this.errors + text).slice(-4000)));
    let said = "";
    await new Promise((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`the server did not start (${code}): ${this.errors}`)));
      child.stdout.on("data", (text) => {
        said += text;
        if (/^mortise ready:.*\n/m.test(said)) resolve(undefined);
      });
    });
    this.http = /^mortise ready:.* http=(\S+)/m.exec(said)?.[1] ?? "";
    this.grpc = /^mortise ready: grpc=(\S+)/m.exec(said)?.[1] ?? "";
    return this;
  }

  async stop() {
    const child = this.child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  }

  /** Runs a command of the client. */
  async run(args, { input, env } = {}) {
    const child = spawn(this.binary, args, { env: { ...environment(), MORTISE_ADDR: this.grpc, ...env }, stdio: ["pipe", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (text) => (output += text));
    child.stderr.on("data", (text) => (output += text));
    child.stdin.end(input ?? "");
    const [code] = await once(child, "exit");
    if (code !== 0) throw new Error(`mortise ${args.join(" ")} ended with ${code}: ${output}`);
    return output;
  }

  /** A request that has to succeed. */
  async request(path, { method = "GET", body, headers } = {}) {
    const answer = await fetch(`http://${this.http}${path}`, { method, body: body && JSON.stringify(body), headers });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.status === 204 ? undefined : answer.json();
  }

  /** The id of a resource, as an owner. */
  async id(kind, name) {
    return (await this.request(`/api/${kind}/${name}`)).id;
  }

  put(kind, name, body, query = "") {
    return this.request(`/api/${kind}/${encodeURIComponent(name)}${query}`, { method: "PUT", body });
  }
}
