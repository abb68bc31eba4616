// What an install would change, from the record of the plugin as it is and as it would be.

import { typeName, type PluginData } from "./plugin";

export interface TypeChange {
  name: string;
  change: "new" | "gone" | "stays" | "upgraded";
  note: string;
}

/** The types of both, sorted by name. */
export function typeChanges(now: PluginData | undefined, next: PluginData): TypeChange[] {
  const versions = (data: PluginData | undefined) => new Map((data?.types ?? []).map((type) => [typeName(type.type), type.schemaVersion ?? 0]));
  const before = versions(now);
  const after = versions(next);
  return [...new Set([...before.keys(), ...after.keys()])].sort().map((name) => {
    const [old, young] = [before.get(name), after.get(name)];
    if (old === undefined) return { name, change: "new", note: "" };
    if (young === undefined) return { name, change: "gone", note: "" };
    return old === young ? { name, change: "stays", note: "" } : { name, change: "upgraded", note: `schema version ${old} to ${young}` };
  });
}

/** What a person should know before the install. */
export function warnings(now: PluginData | undefined, next: PluginData, isUnchanged: boolean): string[] {
  const found: string[] = [];
  if (isUnchanged) found.push("This component serves already: the install changes nothing.");
  const gone = typeChanges(now, next).filter((type) => type.change === "gone");
  if (gone.length > 0) found.push(`It lacks types that the plugin has now: ${gone.map((type) => type.name).join(", ")}.`);
  if (now?.disabled) found.push("The plugin is disabled.");
  if (now?.rolledBack) found.push("The plugin was rolled back; an install ends that.");
  const missing = (next.requests?.requests ?? []).filter((request) => !request.granted);
  if (missing.length > 0) found.push(`It requests grants that the configuration does not give: ${missing.map((request) => request.grant ?? "").join(", ")}.`);
  const idle = next.requests?.unrequested ?? [];
  if (idle.length > 0) found.push(`The configuration gives grants that it does not request: ${idle.join(", ")}.`);
  if (!next.requests && (next.grants ?? []).length > 0) found.push(`It requests nothing by name, and gets every grant: ${(next.grants ?? []).join(", ")}.`);
  return found;
}
