// Findings on their way to their fields.

import type { Finding } from "../api/problem";
import { plainName, segments } from "../lib/path";

/** A finding with the rest of its path, from the present field on. */
export interface Placed {
  rest: string[];
  finding: Finding;
}

/** Findings below `data`, and those that belong to no field of it. */
export function place(findings: Finding[]): { data: Placed[]; others: Finding[] } {
  const data: Placed[] = [];
  const others: Finding[] = [];
  for (const finding of findings) {
    const [first, ...rest] = segments(finding.path ?? "");
    if (first === "data" && rest.length > 0) data.push({ rest: rest.map(plainName), finding });
    else others.push(finding);
  }
  return { data, others };
}

/** The findings of a field inside. */
export function below(placed: Placed[], name: string): Placed[] {
  const plain = plainName(name);
  return placed.filter((one) => one.rest[0] === plain).map((one) => ({ rest: one.rest.slice(1), finding: one.finding }));
}

/** The findings of a field itself: those that end here, and those of fields inside that the form does not show. */
export function here(placed: Placed[], shown: string[]): Finding[] {
  const names = new Set(shown.map(plainName));
  return placed.filter((one) => one.rest[0] === undefined || !names.has(one.rest[0])).map((one) => one.finding);
}
