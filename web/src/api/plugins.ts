// Calls of PluginService (proto/mortise/v1/plugin_service.proto).

import { address, refusalOf } from "./http";
import type { Id, Resource } from "./model";
import { Problem } from "./problem";
import { call, rpcPath } from "./rpc";

export interface Failure {
  reason?: string;
  message?: string;
  stage?: string;
  digest?: string;
  at?: string;
}

export interface HookReport {
  name?: string;
  state?: string;
  faults?: string;
  lastFault?: string;
  retryIn?: string;
}

export interface Inspection {
  plugin?: Resource;
  stage?: string;
  lastFailure?: Failure;
  hooks?: HookReport[];
  draining?: number;
}

export interface HeldResource {
  id?: Id;
  finalizers?: string[];
}

export interface Answer {
  plugin?: Resource;
  unchanged?: boolean;
  held?: HeldResource[];
  heldIncomplete?: boolean;
}

export type Action = "Rollback" | "Reset" | "Disable" | "Enable" | "Remove";

export function inspect(name: string, signal?: AbortSignal): Promise<Inspection> {
  return call("PluginService/Inspect", { name }, signal);
}

export function act(action: Action, name: string): Promise<Answer> {
  return call(`PluginService/${action}`, { name });
}

/** A component to install, with the digest that the server compares. */
export interface Component {
  file: File;
  sha256: string;
  /** A file NAME.wasm.minisig. */
  signature: Uint8Array | undefined;
}

export interface Sending {
  /** The same checks, without a change. */
  isDryRun: boolean;
  /** Called with the sent share of the bytes, 0 to 1. */
  sent(share: number): void;
  signal: AbortSignal;
}

/** Sends a component under the name in its manifest. `fetch` reports no progress of an upload. */
export function install({ file, sha256, signature }: Component, { isDryRun, sent, signal }: Sending): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const path = rpcPath("PluginService/Install");
    const query = { named_by_manifest: "true", sha256, dry_run: isDryRun ? "true" : undefined };
    request.open("POST", address(path, query));
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("X-Mortise-UI", "1");
    request.setRequestHeader("Content-Type", "application/wasm");
    if (signature) request.setRequestHeader("X-Mortise-Signature", btoa(String.fromCharCode(...signature)));
    request.upload.onprogress = (event) => sent(event.total > 0 ? event.loaded / event.total : 0);
    request.upload.onload = () => sent(1);
    request.onload = () => {
      const headers = { "content-type": request.getResponseHeader("content-type") ?? "" };
      const response = new Response(request.responseText, { status: request.status, headers });
      if (response.ok) response.json().then((answer) => resolve(answer as Answer), reject);
      else refusalOf(response, path).then(reject, reject);
    };
    request.onerror = () =>
      reject(new Problem(0, { title: "The connection was lost" }, "The server ended the connection, or cannot be reached, before it answered."));
    request.onabort = () => reject(new DOMException("given up", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
