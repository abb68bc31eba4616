// Completion in the text of a resource: names of fields, and values of enums, from the schema of the type.

import type { Schema } from "../api/model";
import { plainName } from "../lib/path";
import { kindName, resolve, shapeOf, type Shape } from "../lib/schema";

export interface Offer {
  label: string;
  detail: string;
  info: string;
}

export interface Offers {
  /** Length of the typed beginning. */
  typed: number;
  offers: Offer[];
  isKey: boolean;
}

/** Keys of a resource that a client writes. */
const TOP: Offer[] = [
  { label: "data", detail: "message", info: "The content, as the type defines it." },
  { label: "metadata", detail: "map of text", info: "Free pairs of texts." },
  { label: "meta", detail: "meta", info: "Labels, tags, annotations and owner references." },
  { label: "owner", detail: "id", info: "The resource that this one belongs to." },
];

const LINE = /^(\s*)((?:- )*)([\w-]*)(:\s*)?(.*)$/;

/** The schema inside of lists and maps, along a path of keys. */
function along(root: Schema, path: string[]): Schema | undefined {
  let now: Schema | undefined = root;
  for (const key of path) {
    let shape: Shape | undefined = now && shapeOf(root, now);
    while (shape?.kind === "list") shape = shapeOf(root, shape.item);
    if (shape?.kind === "map") now = shape.value;
    else if (shape?.kind === "object") now = shape.properties.find(([name]) => plainName(name) === plainName(key))?.[1];
    else return undefined;
  }
  return now;
}

/** The keys above a line, by indentation. */
function pathAbove(lines: string[], at: number, indent: number): string[] {
  const path: string[] = [];
  let depth = indent;
  for (let i = at - 1; i >= 0 && depth > 0; i -= 1) {
    const [, space = "", dashes = "", key = "", colon] = LINE.exec(lines[i] ?? "") ?? [];
    const own = space.length + dashes.length;
    if (key && colon && space.length < depth && own < depth) {
      path.unshift(key);
      depth = space.length;
    } else if (dashes && space.length < depth) depth = Math.min(depth, space.length + 1);
  }
  return path;
}

/** Offers for the end of a text, which is everything before the cursor. */
export function offersAt(root: Schema, before: string): Offers | undefined {
  const lines = before.split("\n");
  const at = lines.length - 1;
  const [, space = "", dashes = "", key = "", colon, rest = ""] = LINE.exec(lines[at] ?? "") ?? [];
  const indent = space.length + dashes.length;
  const [top, ...path] = pathAbove(lines, at, indent);
  if (colon !== undefined) {
    if (top !== "data") return undefined;
    const field = along(root, [...path, key]);
    const shape = field && shapeOf(root, field);
    const item = shape?.kind === "list" ? shapeOf(root, shape.item) : shape;
    const names = item?.kind === "enum" ? item.names : item?.kind === "boolean" ? ["true", "false"] : [];
    return names.length > 0 ? { typed: rest.length, isKey: false, offers: names.map((label) => ({ label, detail: "", info: "" })) } : undefined;
  }
  if (rest !== "") return undefined;
  if (indent === 0) return { typed: key.length, isKey: true, offers: TOP };
  if (top !== "data") return undefined;
  let shape: Shape = shapeOf(root, along(root, path) ?? {});
  while (shape.kind === "list") shape = shapeOf(root, shape.item);
  if (shape.kind === "enum") return { typed: key.length, isKey: false, offers: shape.names.map((label) => ({ label, detail: "", info: "" })) };
  if (shape.kind !== "object") return undefined;
  const offers = shape.properties.map(([label, field]) => ({
    label,
    detail: kindName(root, field),
    info: resolve(root, field).description ?? "",
  }));
  return { typed: key.length, isKey: true, offers };
}
