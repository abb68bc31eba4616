// ServerService and RegionService (proto/mortise/v1/server_service.proto, region_service.proto), as far as the page shows them.

import type { Gvk, Id } from "./model";
import { call } from "./rpc";

export interface ScheduledBackups {
  schedule?: string;
  dir?: string;
  isHere?: boolean;
  isRunning?: boolean;
  lastFile?: string;
  lastSuccess?: string;
  lastBytes?: string;
  files?: string;
  next?: string;
  fault?: string;
  failedAt?: string;
}

export interface ServerStatus {
  version?: string;
  mode?: string;
  uptime?: string;
  store?: {
    dataDir?: string;
    temporary?: boolean;
    commit?: string;
    resources?: { group?: string; kind?: string; count?: string }[];
    eventBytes?: string;
    bytesOnDisk?: string;
    backups?: string;
    refusesWrites?: string;
    damaged?: string;
    events?: string;
  };
  watches?: string;
  maxWatches?: string;
  /** Sentences. Settings that wait for a restart and the fault of the configuration are among them. */
  warnings?: string[];
  scheduledBackups?: ScheduledBackups;
}

export interface Member {
  id?: string;
  version?: string;
  grpcAddress?: string;
  httpAddress?: string;
  startedAt?: string;
  lag?: string;
  holds?: string[];
  isThis?: boolean;
}

export interface HeldBack {
  id?: Id;
  reason?: string;
  detail?: string;
}

export interface PeerType {
  type?: Gvk;
  state?: string;
  lag?: string;
  applied?: string;
  snapshots?: string;
  heldBack?: HeldBack[];
  lastError?: string;
}

export interface Peer {
  name?: string;
  address?: string;
  state?: string;
  types?: PeerType[];
  unreachableSince?: string;
  lastError?: string;
  storeId?: string;
  stopped?: string;
}

export interface RegionStatus {
  region?: string;
  peers?: Peer[];
}

export function serverStatus(signal: AbortSignal): Promise<ServerStatus> {
  return call("ServerService/Status", {}, signal);
}

export async function members(signal: AbortSignal): Promise<Member[]> {
  return (await call<{ members?: Member[] }>("ServerService/ListMembers", {}, signal)).members ?? [];
}

export function regionStatus(signal: AbortSignal): Promise<RegionStatus> {
  return call("RegionService/Status", {}, signal);
}
