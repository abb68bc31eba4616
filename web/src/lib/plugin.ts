// The host's record of a plugin (proto/mortise/v1/plugin.proto).

import type { Condition, Gvk, Resource } from "../api/model";

export interface PluginData {
  source?: string;
  digest?: string;
  version?: string;
  contractVersion?: string;
  size?: string;
  types?: { type?: Gvk; scope?: string; schemaVersion?: number; message?: string; upgrading?: boolean }[];
  limits?: { memoryBytes?: string; fuel?: string; deadlineMs?: string; concurrency?: string };
  grants?: string[];
  previousVersion?: string;
  previousDigest?: string;
  disabled?: boolean;
  rolledBack?: boolean;
  heldDigest?: string;
  loadedAt?: string;
  requests?: { requests?: { grant?: string; reason?: string; granted?: boolean }[]; unrequested?: string[] };
  trust?: string;
  withdrawn?: boolean;
}

/** The beginning of a digest, which tells components apart. */
export function shortDigest(digest: string | undefined): string {
  return (digest ?? "").slice(0, 12);
}

export function typeName(type: Gvk | undefined): string {
  return type ? `${type.group}.${type.groupVersion}.${type.kind}` : "";
}

export function pluginData(resource: Resource): PluginData {
  return (resource.data ?? {}) as PluginData;
}

function condition(resource: Resource, type: string): Condition | undefined {
  for (const status of Object.values(resource.status ?? {})) {
    const found = status.conditions?.find((one) => one.type === type);
    if (found) return found;
  }
  return undefined;
}

export interface PluginState {
  tone: "good" | "warn" | "bad" | "plain";
  text: string;
  message: string;
}

function stateOf(found: Condition | undefined, good: string): PluginState {
  if (!found) return { tone: "plain", text: "unknown", message: "" };
  const tone = found.state === "STATE_TRUE" ? "good" : found.state === "STATE_FALSE" ? "bad" : "warn";
  return { tone, text: tone === "good" ? good : (found.reason ?? "unknown"), message: found.message ?? "" };
}

export function loadState(resource: Resource): PluginState {
  const state = stateOf(condition(resource, "Loaded"), "serving");
  return pluginData(resource).disabled && state.tone === "bad" ? { ...state, tone: "plain" } : state;
}

export function healthState(resource: Resource): PluginState {
  return stateOf(condition(resource, "Healthy"), "healthy");
}
