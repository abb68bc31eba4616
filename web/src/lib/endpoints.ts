// Endpoints of a service (proto/catalog/v1/catalog.proto).

import type { Resource } from "../api/model";

export interface Endpoint {
  workload?: string;
  address?: string;
  weight?: number;
  health?: string;
  ports?: { name?: string; port?: number; protocol?: string }[];
  labels?: Record<string, string>;
  zone?: string;
  identity?: string;
}

export function endpointsOf(resource: Resource): Endpoint[] {
  return (resource.data?.endpoints ?? []) as unknown as Endpoint[];
}

/** Slices with further endpoints: then the list here is not the whole one. */
export function sliceCount(resource: Resource): number {
  const slices = resource.data?.slices;
  return Array.isArray(slices) ? slices.length : 0;
}

export const isPassing = (endpoint: Endpoint) => endpoint.health === "HEALTH_PASSING";

export const ENDPOINTS = "catalog.v1.ServiceEndpoints";
