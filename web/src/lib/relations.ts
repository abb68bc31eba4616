// Resources that depend on one, as far as searches find them: by owner, by owner reference and by a field.

import { search, quoted, placeOf, type Place } from "../api/resources";
import type { Id, Resource, ResourceType } from "../api/model";

export interface Relation {
  type: ResourceType;
  resource: Resource;
  by: "owner" | "owner reference" | "reference";
  /** The field of a reference. */
  field: string;
}

export interface Found {
  relations: Relation[];
  /** Types that the caller may not list. */
  denied: string[];
  isCut: boolean;
}

const PAGE = 50;
const AT_ONCE = 4;

/** Types that hold resources of people. Those of the host hold its own records. */
function mayOwn(type: ResourceType): boolean {
  return type.scope !== "undefined" && type.group !== "mortise" && type.group !== "internal";
}

function place(type: ResourceType, of: Id): Place {
  const at = placeOf(of);
  const any = (value: string) => (of.tenancy === undefined ? "*" : value);
  return { partition: any(at.partition), namespace: type.scope === "namespace" && of.tenancy?.namespace ? at.namespace : "*" };
}

/** The filter for dependents. References name any version of a type, so the version is not compared. */
function filterOf({ id }: Resource): string {
  const [name, group, kind] = [id.name, id.type?.group ?? "", id.type?.kind ?? ""].map(quoted);
  const owned = `owner.name = ${name} AND owner.type.group = ${group} AND owner.type.kind = ${kind}`;
  return `${owned} OR references CONTAINS (name = ${name} AND group = ${group} AND kind = ${kind})`;
}

function isOf(id: Id, { partition, namespace }: { partition?: string; namespace?: string }): boolean {
  return (id.tenancy?.partition ?? "") === (partition ?? "") && (id.tenancy?.namespace ?? "") === (namespace ?? "");
}

function relationsOf(type: ResourceType, target: Resource, resource: Resource): Relation[] {
  const { id } = target;
  const found: Relation[] = [];
  const owner = resource.owner;
  if (owner?.name === id.name && owner.type?.kind === id.type?.kind && isOf(id, owner.tenancy ?? {})) {
    found.push({ type, resource, by: "owner", field: "" });
  }
  for (const record of resource.references ?? []) {
    if (record.name !== id.name || record.kind !== id.type?.kind || !isOf(id, record)) continue;
    found.push({ type, resource, by: record.field ? "reference" : "owner reference", field: record.field ?? "" });
  }
  return found;
}

async function of(type: ResourceType, target: Resource, signal: AbortSignal): Promise<[Relation[], boolean]> {
  const asked = { filter: filterOf(target), fields: "owner,references,version", pageSize: PAGE };
  const page = await search(type, place(type, target.id), asked, signal);
  return [page.resources.flatMap((resource) => relationsOf(type, target, resource)), Boolean(page.nextPageToken)];
}

/** Asks each type for dependents, a few at once. */
export async function dependents(target: Resource, types: ResourceType[], signal: AbortSignal): Promise<Found> {
  const found: Found = { relations: [], denied: [], isCut: false };
  const waiting = types.filter(mayOwn);
  const ask = async () => {
    for (let type = waiting.shift(); type; type = waiting.shift()) {
      try {
        const [relations, isCut] = await of(type, target, signal);
        found.relations.push(...relations);
        found.isCut ||= isCut;
      } catch {
        if (signal.aborted) return;
        found.denied.push(type.name);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, ask));
  found.relations.sort((a, b) => (a.type.name + a.resource.id.name < b.type.name + b.resource.id.name ? -1 : 1));
  return found;
}
