// Paths into resources, as filters and printer columns have them: `data.group_members.bass\.guitar`.

import type { Json } from "../api/model";

/** The segments of a path. Keys in quotes or brackets may hold dots. */
export function segments(path: string): string[] {
  const found: string[] = [];
  let at = 0;
  let text = "";
  let hasText = false;
  const end = () => {
    if (hasText) found.push(text);
    text = "";
    hasText = false;
  };
  while (at < path.length) {
    const c = path[at] ?? "";
    if (c === "\\") {
      text += path[at + 1] ?? "";
      hasText = true;
      at += 2;
    } else if (c === '"') {
      at += 1;
      while (at < path.length && path[at] !== '"') {
        if (path[at] === "\\") at += 1;
        text += path[at] ?? "";
        at += 1;
      }
      hasText = true;
      at += 1;
    } else if (c === "." || c === "[" || c === "]") {
      end();
      at += 1;
    } else {
      text += c;
      hasText = true;
      at += 1;
    }
  }
  end();
  return found;
}

/** Compares names of fields in snake_case, camelCase and kebab-case. */
export function plainName(name: string): string {
  return name.replace(/[_-]/g, "").toLowerCase();
}

/** A path in the form in which two spellings of it are equal. */
export function plainPath(path: string): string {
  return segments(path).map(plainName).join(".");
}

function step(value: unknown, segment: string): unknown {
  if (value === null || typeof value !== "object") return undefined;
  if (Array.isArray(value)) {
    if (/^\d+$/.test(segment)) return value[Number(segment)];
    const inner = value.map((item) => step(item, segment)).filter((item) => item !== undefined);
    return inner.length > 0 ? inner : undefined;
  }
  const object = value as Record<string, unknown>;
  if (segment in object) return object[segment];
  const plain = plainName(segment);
  const key = Object.keys(object).find((name) => plainName(name) === plain);
  return key === undefined ? undefined : object[key];
}

/** The value at a path; `undefined` where it is absent. */
export function valueAt(value: unknown, path: readonly string[]): Json | undefined {
  let now: unknown = value;
  for (const segment of path) now = step(now, segment);
  return now as Json | undefined;
}
