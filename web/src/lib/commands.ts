// Commands that show the same as a page, ready for a shell.

import { address, type Query } from "../api/http";
import type { ResourceType } from "../api/model";
import { itemPath, placeQuery, type Place } from "../api/resources";

/** A word for a POSIX shell. */
export function word(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

/** Flags of a place; defaults are left out. */
export function placeFlags(type: ResourceType, place: Place): string[] {
  const flags: string[] = [];
  if (type.scope === "cluster") return flags;
  if (place.partition === "*" || place.namespace === "*") return ["-A"];
  if (place.partition !== "default") flags.push("--partition", word(place.partition));
  if (type.scope === "namespace" && place.namespace !== "default") flags.push("-n", word(place.namespace));
  return flags;
}

/** The shortest name of a type that the command line knows for sure. */
export function typeWord(type: ResourceType): string {
  return word(type.name);
}

export function mortise(...words: string[]): string {
  return ["mortise", ...words].join(" ");
}

export function curl(path: string, query: Query = {}, isSignedIn = false): string {
  const target = word(`${location.origin}${address(path, query)}`);
  const header = isSignedIn ? `-H "Authorization: Bearer $MORTISE_TOKEN" ` : "";
  return `curl ${header}${target}`;
}

export function getCommand(type: ResourceType, place: Place, name: string): string {
  return mortise("get", typeWord(type), word(name), ...placeFlags(type, place), "-o", "yaml");
}

export function curlItem(type: ResourceType, place: Place, name: string, isSignedIn: boolean): string {
  return curl(itemPath(type, name), placeQuery(type, place), isSignedIn);
}

/** A call of one of the server's methods. */
export function curlPost(path: string, request: object, isSignedIn: boolean): string {
  const body = Object.keys(request).length > 0 ? ` -d ${word(JSON.stringify(request))}` : "";
  return `${curl(path, {}, isSignedIn).replace(/^curl /, "curl -X POST ")}${body}`;
}
