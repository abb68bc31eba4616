// Values as short texts.

import type { Json } from "../api/model";

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "m"],
  [1, "s"],
];

/** A span of seconds in its two largest units, such as `3h 12m`. */
export function span(seconds: number): string {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  const at = UNITS.findIndex(([size]) => seconds >= size);
  const [size, unit] = UNITS[at] ?? [1, "s"];
  const whole = Math.floor(seconds / size);
  const next = UNITS[at + 1];
  const rest = next && whole < 10 ? Math.floor((seconds % size) / next[0]) : 0;
  return next && rest > 0 ? `${whole}${unit} ${rest}${next[1]}` : `${whole}${unit}`;
}

/** Time since a timestamp. */
export function age(timestamp: string | undefined, now: number): string {
  if (!timestamp) return "";
  const then = Date.parse(timestamp);
  return Number.isNaN(then) ? "" : span(Math.max(1, (now - then) / 1000));
}

/** A short time of a call, in seconds. */
export function duration(seconds: number | undefined): string {
  if (seconds === undefined) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return `${seconds.toFixed(1)} s`;
}

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(value: number | undefined): string {
  return value === undefined ? "–" : numbers.format(value);
}

export function bytes(value: number | string | undefined): string {
  let rest = Number(value);
  if (value === undefined || Number.isNaN(rest)) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (rest < 1024 || unit === "TiB") return `${rest < 10 && unit !== "B" ? rest.toFixed(1) : Math.round(rest)} ${unit}`;
    rest /= 1024;
  }
  return "";
}

/** A value as the text of a cell. Long ones are cut: the page of the resource has them whole. */
export function cell(value: Json | undefined, longest = 200): string {
  if (value === undefined || value === null) return "";
  let text: string;
  if (typeof value === "string") text = value;
  else if (Array.isArray(value) && value.every((item) => typeof item !== "object")) text = value.join(", ");
  else if (typeof value === "object") text = JSON.stringify(value);
  else text = String(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

/** Control characters and marks of direction as visible signs. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const code = c.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** A comment without the breaks of its lines. Empty lines stay. */
export function prose(text: string): string {
  return text.replace(/([^\n])\n(?![\n\s*-])/g, "$1 ");
}

/** A number with its noun. */
export function plural(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
