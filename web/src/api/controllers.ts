// ControllerService (proto/mortise/v1/controller_service.proto).

import type { Gvk, Id } from "./model";
import { call } from "./rpc";

export interface ReconcileError {
  id?: Id;
  message?: string;
  count?: string;
  first?: string;
  last?: string;
}

export interface SetAside {
  id?: Id;
  retryIn?: string;
}

export interface ControllerReport {
  name?: string;
  plugin?: string;
  manages?: Gvk;
  watches?: Gvk[];
  state?: string;
  reason?: string;
  queued?: string;
  oldest?: string;
  running?: string;
  deferred?: string;
  reconciles?: string;
  errors?: string;
  requeues?: string;
  throttled?: string;
  restarts?: string;
  lastErrors?: ReconcileError[];
  throttledNow?: string;
  throttledResources?: Id[];
  setAsideNow?: string;
  setAside?: SetAside[];
  putOff?: ReconcileError[];
  mapperQueued?: string;
  mapperErrors?: string;
  mapperSkipped?: string;
  indexErrors?: string;
}

/** All controllers, or those of a plugin. */
export async function controllers(plugin: string, signal?: AbortSignal): Promise<ControllerReport[]> {
  const answer = await call<{ controllers?: ControllerReport[] }>("ControllerService/List", { plugin }, signal);
  return answer.controllers ?? [];
}

/** The state as a sign and words. */
export function stateOf(report: ControllerReport): ["good" | "warn" | "bad" | "plain", string] {
  const state = report.state ?? "unknown";
  const words = state.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  if (state === "Running") return ["good", words];
  if (["BackingOff", "Stopped"].includes(state)) return ["bad", words];
  return [state === "Paused" ? "warn" : "plain", words];
}

export interface Trouble {
  label: string;
  count: number;
  tone: "bad" | "warn";
}

/** Resources of the controller that an operator may look at. */
export function troubles(report: ControllerReport): Trouble[] {
  const all: Trouble[] = [
    { label: "set aside", count: Number(report.setAsideNow ?? 0), tone: "bad" },
    { label: "throttled", count: Number(report.throttledNow ?? 0), tone: "warn" },
    { label: "put off", count: (report.putOff ?? []).length, tone: "warn" },
  ];
  return all.filter((trouble) => trouble.count > 0);
}
