// Rows of a live table: changes of a frame become one new list.

import type { Resource, ResourceType } from "../api/model";
import { placeOf, type Place } from "../api/resources";
import type { Change } from "../api/watch";
import { age, cell } from "../lib/format";
import { segments, valueAt } from "../lib/path";
import type { Column, GridRow } from "../parts/Grid.svelte";
import { clock } from "./clock.svelte";
import { href } from "./router.svelte";

/** A row is marked for this time after a change. */
const FRESH_MS = 1_500;

interface ListRow extends GridRow {
  place: Place;
  created: string;
  /** All texts in lower case, made at the first comparison. */
  text: string | undefined;
}

/** Text order of names: by code units, as the server's. */
const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

export class Rows {
  readonly #type: ResourceType;
  readonly #paths: string[][];
  readonly #all = new Map<string, ListRow>();
  #sorted: ListRow[] = [];
  #isComplete = false;
  #version = $state(0);
  #freshTimer: ReturnType<typeof setTimeout> | undefined;

  readonly columns: Column[];

  constructor(type: ResourceType, paths: { name: string; path: string }[], withPlace: boolean) {
    this.#type = type;
    this.#paths = paths.map((column) => segments(column.path));
    this.columns = [
      { name: "Name", text: (row) => row.name, width: "minmax(150px, 1.6fr)" },
      ...(withPlace ? [{ name: "Place", text: (row: GridRow) => placeText(row as ListRow, type), width: "minmax(90px, 1fr)" }] : []),
      ...paths.map((column, at) => ({ name: column.name, text: (row: GridRow) => cell(row.cells[at]) })),
      { name: "Age", text: (row) => age((row as ListRow).created, clock.now), width: "84px" },
    ];
  }

  get isComplete(): boolean {
    void this.#version;
    return this.#isComplete;
  }

  get size(): number {
    void this.#version;
    return this.#all.size;
  }

  take(changes: Change[]): void {
    let keysChanged = false;
    const replaced = new Map<string, ListRow>();
    for (const change of changes) {
      if (change.kind === "reset") {
        this.#all.clear();
        this.#isComplete = false;
        keysChanged = true;
      } else if (change.kind === "complete") {
        this.#isComplete = true;
      } else {
        const key = keyOf(change.resource);
        if (change.kind === "delete") keysChanged = this.#all.delete(key) || keysChanged;
        else {
          const row = this.#row(key, change.resource);
          if (this.#all.has(key)) replaced.set(key, row);
          else keysChanged = true;
          this.#all.set(key, row);
        }
      }
    }
    if (keysChanged) {
      this.#sorted = [...this.#all.values()].sort((a, b) => compare(a.key, b.key));
    } else if (replaced.size > 0) {
      this.#sorted = this.#sorted.map((row) => replaced.get(row.key) ?? row);
    }
    this.#version += 1;
    if (this.#isComplete && !this.#freshTimer) this.#freshTimer = setTimeout(() => this.#fade(), FRESH_MS);
  }

  stop(): void {
    clearTimeout(this.#freshTimer);
  }

  #row(key: string, resource: Resource): ListRow {
    const place = placeOf(resource.id);
    return {
      key,
      name: resource.id.name,
      href: href(["r", this.#type.name, resource.id.name], placeParameters(this.#type, place)),
      isFresh: this.#isComplete,
      version: resource.version ?? "",
      cells: this.#paths.map((path) => valueAt(resource, path)),
      place,
      created: resource.meta?.createTime ?? "",
      text: undefined,
    };
  }

  /** Ends the marks of changed rows. */
  #fade(): void {
    this.#freshTimer = undefined;
    for (const row of this.#all.values()) row.isFresh = false;
  }

  /** The rows that have every word of the text, in an order. */
  list(text: string, sortedBy: number, isDescending: boolean): GridRow[] {
    void this.#version;
    const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let rows = this.#sorted;
    if (words.length > 0) rows = rows.filter((row) => words.every((word) => this.#textOf(row).includes(word)));
    const column = this.columns[sortedBy];
    if (sortedBy > 0 && column) {
      const isAge = sortedBy === this.columns.length - 1;
      const keyed = rows.map((row) => ({ row, key: isAge ? row.created : column.text(row) }));
      const order = isAge
        ? (a: string, b: string) => compare(b, a)
        : new Intl.Collator("en", { numeric: true }).compare;
      keyed.sort((a, b) => order(a.key, b.key) || compare(a.row.key, b.row.key));
      rows = keyed.map((entry) => entry.row);
    }
    return isDescending ? rows.toReversed() : rows;
  }

  #textOf(row: ListRow): string {
    row.text ??= this.columns.slice(0, -1).map((column) => column.text(row)).join(" ").toLowerCase();
    return row.text;
  }
}

function keyOf(resource: Resource): string {
  const { partition, namespace } = placeOf(resource.id);
  return `${partition}/${namespace}/${resource.id.name}`;
}

function placeText(row: ListRow, type: ResourceType): string {
  return type.scope === "namespace" ? `${row.place.partition}/${row.place.namespace}` : row.place.partition;
}

/** Parameters that name a place in the address of a page. */
export function placeParameters(type: ResourceType, place: Place): Record<string, string> {
  if (type.scope === "cluster") return {};
  const short = (value: string) => (value === "default" ? "" : value);
  return { partition: short(place.partition), namespace: type.scope === "namespace" ? short(place.namespace) : "" };
}
