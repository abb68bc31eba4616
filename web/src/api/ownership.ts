// OwnershipService (proto/mortise/v1/ownership_service.proto).

import type { Id } from "./model";
import { call } from "./rpc";

export interface DeleteStep {
  action?: string;
  id?: Id;
  because?: Id;
  field?: string;
  finalizers?: string[];
  heldBy?: Id[];
  reason?: string;
}

export interface DeletePlan {
  steps?: DeleteStep[];
  isBlocked?: boolean;
  hidden?: number;
  isCut?: boolean;
  cut?: string;
}

export interface TreeLink {
  dependent?: Id;
  target?: Id;
  owner?: boolean;
  ownerReference?: boolean;
  field?: string;
  onDelete?: string;
  distance?: number;
}

export interface Tree {
  up?: TreeLink[];
  down?: TreeLink[];
  hidden?: number;
  isCut?: boolean;
}

export function planDelete(id: Id, signal: AbortSignal): Promise<DeletePlan> {
  return call("OwnershipService/PlanDelete", { id }, signal);
}

export function getTree(id: Id, depth: number, signal: AbortSignal): Promise<Tree> {
  return call("OwnershipService/GetTree", { id, depth }, signal);
}

/** A text that tells ids apart, in any incarnation. */
export function idKey(id: Id | undefined): string {
  const { type, tenancy, name } = id ?? { name: "" };
  return [type?.group, type?.kind, tenancy?.partition, tenancy?.namespace, name].join("/");
}
