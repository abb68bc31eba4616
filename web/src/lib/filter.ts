// Completion of filters (docs/query.md): paths, operators, and values of enums.

import type { Schema } from "../api/model";
import { plainName } from "./path";
import { kindName, shapeOf, type Shape } from "./schema";

export interface FilterOffer {
  text: string;
  note: string;
}

export interface FilterOffers {
  /** Length of the typed beginning, which an offer replaces. */
  typed: number;
  offers: FilterOffer[];
}

const COMMON: FilterOffer[] = [
  { text: "id.name", note: "text" },
  { text: "owner.name", note: "text" },
  { text: "meta.labels.", note: "map of text" },
  { text: "meta.tags", note: "list of text" },
  { text: "meta.create_time", note: "time" },
  { text: "meta.update_time", note: "time" },
];
const DEPTH = 3;
const MOST = 8;

const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Paths of the fields, messages inside included. Recursion ends at a depth. */
function paths(root: Schema, schema: Schema, prefix: string, depth: number, out: FilterOffer[]): void {
  const shape = shapeOf(root, schema);
  if (shape.kind !== "object") return;
  for (const [name, field] of shape.properties) {
    const path = `${prefix}.${snake(name)}`;
    const of = shapeOf(root, field);
    out.push({ text: of.kind === "map" ? `${path}.` : path, note: kindName(root, field) });
    const inner = of.kind === "list" ? of.item : field;
    if (depth < DEPTH) paths(root, inner, path, depth + 1, out);
  }
}

export function filterPaths(schema: Schema): FilterOffer[] {
  const out: FilterOffer[] = [];
  paths(schema, schema, "data", 1, out);
  return [...out, ...COMMON];
}

function fieldAt(root: Schema, path: string): Schema | undefined {
  let now: Schema | undefined = root;
  for (const name of path.split(".").slice(1)) {
    const shape: Shape | undefined = now && shapeOf(root, now);
    const object: Shape | undefined = shape?.kind === "list" ? shapeOf(root, shape.item) : shape;
    now = object?.kind === "object" ? object.properties.find(([key]) => plainName(key) === plainName(name))?.[1] : undefined;
  }
  return now;
}

function operators(root: Schema, path: string): string[] {
  const field = path.startsWith("data.") ? fieldAt(root, path) : undefined;
  const kind = field ? shapeOf(root, field).kind : "text";
  if (kind === "list" || path === "meta.tags") return ["CONTAINS", "IS NULL", "IS NOT NULL"];
  if (kind === "object" || kind === "map") return ["IS NULL", "IS NOT NULL"];
  if (kind === "text") return ["=", "!=", "STARTS_WITH", "LIKE", "IN ("];
  return ["=", "!=", "<", ">", "IN ("];
}

/** Offers for the text before the cursor. */
export function filterOffers(schema: Schema, all: FilterOffer[], before: string): FilterOffers | undefined {
  const quotes = (before.match(/(?:\\.|[^"\\])|"/g) ?? []).filter((part) => part === '"').length;
  const value = /([A-Za-z_][\w.]*)\s*(?:=|==|!=|IN \((?:[^)]*,)?)\s*("?[\w]*)$/.exec(before);
  if (value) {
    const [, path = "", typed = ""] = value;
    const field = path.startsWith("data.") ? fieldAt(schema, path) : undefined;
    const shape = field && shapeOf(schema, field);
    const names = shape?.kind === "enum" ? shape.names.map((name) => `"${name}"`) : shape?.kind === "boolean" ? ["TRUE", "FALSE"] : [];
    return fitting(names.map((text) => ({ text, note: "" })), typed);
  }
  if (quotes % 2 === 1) return undefined;
  const operator = /(?:^|[\s(])([A-Za-z_]+\.[\w.]*[\w]) +([A-Z=!<>_]*)$/.exec(before);
  if (operator) return fitting(operators(schema, operator[1] ?? "").map((text) => ({ text: `${text} `, note: "" })), operator[2] ?? "");
  const [typed = ""] = /[\w.]*$/.exec(before) ?? [];
  return typed === "" ? undefined : fitting(all, typed);
}

function fitting(offers: FilterOffer[], typed: string): FilterOffers | undefined {
  const beginning = typed.toLowerCase();
  const fits = offers.filter((offer) => offer.text.toLowerCase().startsWith(beginning) && offer.text !== typed);
  const loosely = offers.filter((offer) => !fits.includes(offer) && beginning.length > 1 && offer.text.toLowerCase().includes(beginning) && offer.text !== typed);
  const found = [...fits, ...loosely].slice(0, MOST);
  return found.length > 0 ? { typed: typed.length, offers: found } : undefined;
}
