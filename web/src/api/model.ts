// Forms of the HTTP API (docs/http.md), as far as the page reads them.

import type { Finding } from "./problem";

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

export interface Gvk {
  group: string;
  groupVersion: string;
  kind: string;
}

export interface Tenancy {
  partition?: string;
  namespace?: string;
}

export interface Id {
  name: string;
  type?: Gvk;
  tenancy?: Tenancy;
  uid?: string;
}

export interface Reference {
  type?: Gvk;
  tenancy?: Tenancy;
  name?: string;
  section?: string;
}

export interface Condition {
  type: string;
  state?: "STATE_UNKNOWN" | "STATE_TRUE" | "STATE_FALSE";
  reason?: string;
  message?: string;
  resource?: Reference;
}

export interface Status {
  observedGeneration?: string;
  conditions?: Condition[];
  updatedAt?: string;
}

export interface OwnerReference {
  kind?: string;
  name?: string;
  version?: string;
  controller?: boolean;
  unsetOnDelete?: boolean;
}

export interface Meta {
  createTime?: string;
  updateTime?: string;
  generation?: string;
  resourceVersion?: string;
  deleteTime?: string;
  tags?: string[];
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  lifecycle?: JsonObject;
  syncing?: JsonObject;
}

/** A reference by a field of the data, or an owner reference (without a field). */
export interface ReferenceRecord {
  group?: string;
  kind?: string;
  partition?: string;
  namespace?: string;
  name?: string;
  field?: string;
  onDelete?: string;
}

export interface Resource {
  id: Id;
  owner?: Id;
  version?: string;
  generation?: string;
  metadata?: Record<string, string>;
  meta?: Meta;
  status?: Record<string, Status>;
  data?: JsonObject;
  unprintableData?: JsonObject;
  references?: ReferenceRecord[];
}

export type Scope = "cluster" | "partition" | "namespace" | "undefined";

export interface ResourceType extends Gvk {
  name: string;
  path: string;
  scope: Scope;
  message: string;
  schemaVersion: number;
  plugin: string | null;
  pluginVersion: string | null;
  orphaned: boolean;
  shortNames: string[];
  printerColumns: { name: string; path: string }[];
  immutableFields: string[];
}

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string;
  title?: string;
  description?: string;
  deprecated?: boolean;
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  propertyNames?: Schema;
  items?: Schema;
  enum?: Json[];
  anyOf?: Schema[];
  allOf?: Schema[];
  oneOf?: Schema[];
  required?: string[];
  format?: string;
  pattern?: string;
  contentEncoding?: string;
  minimum?: number;
  maximum?: number;
  maxProperties?: number;
}

export interface DescribedType extends ResourceType {
  schema: Schema;
}

export interface Page {
  resources: Resource[];
  nextPageToken?: string;
  prevPageToken?: string;
  plan?: JsonObject;
  totalResultsCount?: string | number;
  currentOffset?: string | number;
}

export interface DryRun {
  resource: Resource;
  warnings: Finding[];
}

/** The part of a resource that a client writes. */
export interface Draft {
  data: JsonObject;
  metadata?: Record<string, string>;
  owner?: Id;
  meta?: Meta;
}
