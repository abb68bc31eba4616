// Resources that depend on one, as far as searches find them: by owner, by owner reference and by a field.

import { search, quoted, placeOf, type Place } from "../api/resources";
import type { Id, Resource, ResourceType } from "../api/model";

export interface Relation {
  type: ResourceType;
  resource: Resource;
  by: "owner" | "owner reference" | "reference";
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

async function of(type: ResourceType, target: Resource, all: ResourceType[], signal: AbortSignal): Promise<[Relation[], boolean]> {
  const { id } = target;
  const kind = all.find((one) => one.group === id.type?.group && one.groupVersion === id.type.groupVersion && one.kind === id.type.kind);
  const name = quoted(id.name);
  const filter = `owner.name = ${name} AND owner.type.kind = ${quoted(id.type?.kind ?? "")} AND owner.type.group = ${quoted(id.type?.group ?? "")}`;
  const byReference = `meta.owner_references CONTAINS (name = ${name} AND kind = ${quoted(`${id.type?.group ?? ""}/${kind?.kind ?? id.type?.kind ?? ""}`)})`;
  const asked = { fields: "owner,version", pageSize: PAGE };
  const at = place(type, id);
  const owned = await search(type, at, { ...asked, filter }, signal);
  const referring = await search(type, at, { ...asked, filter: byReference }, signal);
  const relations: Relation[] = [
    ...owned.resources.map((resource): Relation => ({ type, resource, by: "owner" })),
    ...referring.resources.map((resource): Relation => ({ type, resource, by: "owner reference" })),
  ];
  return [relations, Boolean(owned.nextPageToken || referring.nextPageToken)];
}

/** Asks each type for dependents, a few at once. */
export async function dependents(target: Resource, types: ResourceType[], signal: AbortSignal): Promise<Found> {
  const found: Found = { relations: [], denied: [], isCut: false };
  const waiting = types.filter(mayOwn);
  const ask = async () => {
    for (let type = waiting.shift(); type; type = waiting.shift()) {
      try {
        const [relations, isCut] = await of(type, target, types, signal);
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
