// Reads and writes of resources, as any client of the HTTP API does them.

import { getJson, send, type Query } from "./http";
import type { Draft, DryRun, Id, Page, Resource, ResourceType } from "./model";

/** Partition and namespace of a request. `*` stands for all. */
export interface Place {
  partition: string;
  namespace: string;
}

/** The parameters of a place, as far as the type's scope has them. Defaults are left out. */
export function placeQuery(type: ResourceType, place: Place): Query {
  const query: Query = {};
  if (type.scope === "cluster") return query;
  if (place.partition !== "default") query.partition = place.partition;
  if (type.scope === "namespace" && place.namespace !== "default") query.namespace = place.namespace;
  return query;
}

export function placeOf(id: Id): Place {
  return { partition: id.tenancy?.partition || "default", namespace: id.tenancy?.namespace || "default" };
}

export function itemPath(type: ResourceType, name: string): string {
  return `${type.path}/${encodeURIComponent(name)}`;
}

export async function readResource(type: ResourceType, place: Place, name: string): Promise<Resource> {
  return getJson<Resource>(itemPath(type, name), { query: placeQuery(type, place) });
}

export interface Search {
  filter?: string;
  selector?: string;
  orderBy?: string;
  fields?: string;
  pageSize?: number;
  pageToken?: string;
  explain?: boolean;
  count?: boolean;
}

export async function search(type: ResourceType, place: Place, asked: Search, signal?: AbortSignal): Promise<Page> {
  const query: Query = { ...placeQuery(type, place), page_size: asked.pageSize ?? 100 };
  if (asked.filter) query.filter = asked.filter;
  if (asked.selector) query.selector = asked.selector;
  if (asked.orderBy) query.order_by = asked.orderBy;
  if (asked.fields) query.fields = asked.fields;
  if (asked.pageToken) query.page_token = asked.pageToken;
  if (asked.explain) query.explain = true;
  if (asked.count) query.paging_info = true;
  return getJson<Page>(type.path, { query, signal });
}

/** A text for a filter, in quotes. */
export function quoted(text: string): string {
  return `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`;
}

/** The body of a write: JSON from the form, or the text of the editor, which the server reads. */
export type Body = { draft: Draft } | { text: string; format: "yaml" | "json" };

function sent(body: Body): { body: unknown; type: string } {
  if ("draft" in body) return { body: body.draft, type: "application/json" };
  return { body: body.text, type: body.format === "yaml" ? "application/yaml" : "application/json" };
}

export async function validate(
  type: ResourceType,
  place: Place,
  name: string,
  body: Body,
  signal?: AbortSignal,
): Promise<DryRun> {
  const response = await send(`${itemPath(type, name)}/_validate`, {
    method: "POST",
    query: placeQuery(type, place),
    signal,
    ...sent(body),
  });
  return (await response.json()) as DryRun;
}

/** Stores a resource: in the version that was read, or only if it is new. */
export async function write(
  type: ResourceType,
  place: Place,
  name: string,
  body: Body,
  version: string | undefined,
): Promise<{ resource: Resource; warnings: string[] }> {
  const condition: Record<string, string> = version ? { "If-Match": `"${version}"` } : { "If-None-Match": "*" };
  const response = await send(itemPath(type, name), {
    method: "PUT",
    query: placeQuery(type, place),
    headers: condition,
    ...sent(body),
  });
  const warning = response.headers.get("warning");
  return { resource: (await response.json()) as Resource, warnings: warning ? [warning] : [] };
}

export async function remove(type: ResourceType, place: Place, name: string, version: string): Promise<void> {
  await send(itemPath(type, name), {
    method: "DELETE",
    query: placeQuery(type, place),
    headers: { "If-Match": `"${version}"` },
  });
}

/** The part of a resource that a write may change. */
export function draftOf(resource: Resource): Draft {
  const draft: Draft = { data: resource.data ?? {} };
  if (resource.metadata && Object.keys(resource.metadata).length > 0) draft.metadata = resource.metadata;
  if (resource.owner) draft.owner = resource.owner;
  const { tags, labels, annotations, ownerReferences } = resource.meta ?? {};
  const meta = {
    ...(tags && { tags }),
    ...(labels && { labels }),
    ...(annotations && { annotations }),
    ...(ownerReferences && { ownerReferences }),
  };
  if (Object.keys(meta).length > 0) draft.meta = meta;
  return draft;
}
