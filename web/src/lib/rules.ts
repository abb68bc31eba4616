// Rules by type and place in the short form of the command line: `VERB,…:TYPE,…[@PARTITION[/NAMESPACE]][:NAME or PREFIX*,…]`.

import type { TypeRule } from "../api/access";

const words = (text: string) => text.split(",").map((word) => word.trim());

/** The rule in a line that begins with `allow` or `deny`. The server checks verbs and types. */
export function readRule(line: string): TypeRule | undefined {
  const [, effect, text = ""] = /^\s*(allow|deny)\s+(.*)$/.exec(line) ?? [];
  const [verbs, what, names, ...rest] = text.split(":");
  if (!effect || !verbs || !what || rest.length > 0) return undefined;
  const [types = "", place, ...more] = what.split("@");
  const [partition = "*", namespace = "*"] = place === undefined ? [] : place.split(/\/(.*)/);
  const all = names === undefined ? [] : words(names);
  const given = [...words(verbs), ...words(types), ...all, partition, namespace];
  if (more.length > 0 || given.some((word) => word === "")) return undefined;
  const unit = (value: string) => (value === "*" ? [] : [value.trim()]);
  const isPrefix = (name: string) => name.endsWith("*");
  return {
    types: words(types),
    verbs: words(verbs),
    partitions: unit(partition),
    namespaces: unit(namespace),
    names: all.filter((name) => !isPrefix(name)),
    namePrefixes: all.filter(isPrefix).map((name) => name.replace(/\*+$/, "")),
    deny: effect === "deny",
  };
}

/** Rules, one a line; empty lines are left out. `wrong` has the lines without the form. */
export function readRules(text: string): { rules: TypeRule[]; wrong: string[] } {
  const lines = text.split("\n").filter((line) => line.trim());
  const read = lines.map((line) => readRule(line));
  return { rules: read.filter((rule) => rule !== undefined), wrong: lines.filter((_, at) => !read[at]) };
}

export function ruleText(rule: TypeRule): string {
  const any = (units: string[] | undefined) => ((units ?? []).length > 0 ? (units ?? []).join("|") : "*");
  const hasPlace = (rule.partitions ?? []).length > 0 || (rule.namespaces ?? []).length > 0;
  const names = [...(rule.names ?? []), ...(rule.namePrefixes ?? []).map((prefix) => `${prefix}*`)];
  const place = hasPlace ? `@${any(rule.partitions)}/${any(rule.namespaces)}` : "";
  return `${rule.deny ? "deny" : "allow"} ${(rule.verbs ?? []).join(",")}:${(rule.types ?? []).join(",")}${place}${names.length > 0 ? `:${names.join(",")}` : ""}`;
}
