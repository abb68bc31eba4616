// JSON values as YAML. The server reads it; the page only prints it.

import type { Json } from "../api/model";

/** Texts that need no quotes: they begin with a letter, and no reader takes them for another type. */
const PLAIN = /^[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*$/;
const WORDS = /^(?:y|n|yes|no|on|off|true|false|null|nan|inf|infinity)$/i;
/** Lines of a block: printable ASCII without a space at the beginning or the end. */
const BLOCK_LINE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

function scalar(text: string): string {
  return PLAIN.test(text) && !WORDS.test(text) ? text : JSON.stringify(text);
}

function block(text: string, indent: string): string | undefined {
  if (!text.includes("\n")) return undefined;
  const body = text.endsWith("\n") ? text.slice(0, -1) : text;
  const lines = body.split("\n");
  if (!lines.every((line, at) => (line === "" && at > 0 && at < lines.length - 1) || BLOCK_LINE.test(line))) return undefined;
  const mark = text.endsWith("\n") ? "|" : "|-";
  return mark + lines.map((line) => (line ? `\n${indent}${line}` : "\n")).join("");
}

function isEmpty(value: Json): boolean {
  return value !== null && typeof value === "object" && Object.keys(value).length === 0;
}

function lines(value: Json, indent: string, out: string[]): void {
  if (Array.isArray(value)) {
    for (const item of value) put(`${indent}-`, item, indent, out);
  } else if (value !== null && typeof value === "object") {
    for (const [key, item] of Object.entries(value)) put(`${indent}${scalar(key)}:`, item, indent, out);
  }
}

/** Adds a key or a dash with its value. */
function put(head: string, value: Json, indent: string, out: string[]): void {
  const deeper = `${indent}  `;
  if (value === null || typeof value !== "object") {
    const text = typeof value === "string" ? (block(value, deeper) ?? scalar(value)) : JSON.stringify(value);
    out.push(`${head} ${text}`);
  } else if (isEmpty(value)) {
    out.push(`${head} ${Array.isArray(value) ? "[]" : "{}"}`);
  } else {
    out.push(head);
    lines(value, deeper, out);
  }
}

export function toYaml(value: Json): string {
  if (value === null || typeof value !== "object") return `${typeof value === "string" ? scalar(value) : JSON.stringify(value)}\n`;
  if (isEmpty(value)) return Array.isArray(value) ? "[]\n" : "{}\n";
  const out: string[] = [];
  lines(value, "", out);
  return `${out.join("\n")}\n`;
}
