// The place of a field in a text of YAML or JSON, so that a finding stands at its line.

import { plainName, segments } from "./path";

const KEY = /^(\s*)(?:- )*"?([A-Za-z_][\w./-]*)"?\s*:/;

/** The number of the line (from 1) of the deepest part of a path that the text has. */
export function lineOf(text: string, path: string): number {
  const wanted = segments(path).filter((segment) => !/^\d+$/.test(segment)).map(plainName);
  const lines = text.split("\n");
  let found = 1;
  let depth = 0;
  let indent = -1;
  for (let at = 0; at < lines.length && depth < wanted.length; at += 1) {
    const [, space, key] = KEY.exec(lines[at] ?? "") ?? [];
    if (space === undefined || key === undefined) continue;
    if (space.length <= indent && depth > 0 && plainName(key) !== wanted[depth]) break;
    if (plainName(key) !== wanted[depth] || space.length <= indent) continue;
    found = at + 1;
    indent = space.length;
    depth += 1;
  }
  return found;
}
