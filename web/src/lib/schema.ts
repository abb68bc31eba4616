// JSON Schemas of the server (one shape for each kind of protobuf field) as kinds of form fields.

import type { Json, JsonObject, Schema } from "../api/model";

export type Shape =
  | { kind: "object"; properties: [string, Schema][]; choices: string[][] }
  | { kind: "map"; value: Schema; keys: Schema | undefined }
  | { kind: "list"; item: Schema }
  | { kind: "enum"; names: string[] }
  | { kind: "boolean" }
  | { kind: "integer"; isLong: boolean; minimum: number | undefined; maximum: number | undefined }
  | { kind: "number" }
  | { kind: "text"; hint: string }
  | { kind: "json" };

/** Follows a reference into the definitions of the document. */
export function resolve(root: Schema, schema: Schema): Schema {
  let now = schema;
  for (let depth = 0; now.$ref && depth < 10; depth += 1) {
    const target = root.$defs?.[now.$ref.replace(/^#\/\$defs\//, "")];
    if (!target) return now;
    // A description at the field beats that of its message.
    now = schema.description ? { ...target, description: schema.description } : target;
  }
  return now;
}

/** Groups of fields of which at most one is present. */
function choices(schema: Schema): string[][] {
  const groups: string[][] = [];
  for (const part of schema.allOf ?? []) {
    const names = (part.oneOf ?? []).flatMap((choice) => choice.required ?? []);
    if (names.length > 1) groups.push(names);
  }
  return groups;
}

function ofChoices(parts: Schema[]): Shape {
  const names = parts.find((part) => part.enum)?.enum;
  const number = parts.find((part) => part.type === "integer" || part.type === "number");
  if (number?.type === "integer" && names) return { kind: "enum", names: names.map(String) };
  if (number?.type === "integer") return { kind: "integer", isLong: true, minimum: number.minimum, maximum: undefined };
  if (number) return { kind: "number" };
  return { kind: "json" };
}

// Fields that a form can have; `@unknown` is in every message, and holds bytes that no form can show.
function known(properties: Record<string, Schema>): [string, Schema][] {
  return Object.entries(properties).filter(([name]) => name !== "@unknown");
}

export function shapeOf(root: Schema, raw: Schema): Shape {
  const schema = resolve(root, raw);
  if (schema.anyOf) return ofChoices(schema.anyOf);
  if (schema.enum) return { kind: "enum", names: schema.enum.map(String) };
  switch (schema.type) {
    case "object":
      if (schema.additionalProperties && typeof schema.additionalProperties === "object") {
        return { kind: "map", value: schema.additionalProperties, keys: schema.propertyNames };
      }
      // `Any` and `Struct` have fields of their own choice.
      if (!schema.properties || "@type" in schema.properties) return { kind: "json" };
      return { kind: "object", properties: known(schema.properties), choices: choices(schema) };
    case "array":
      return schema.items ? { kind: "list", item: schema.items } : { kind: "json" };
    case "boolean":
      return { kind: "boolean" };
    case "integer":
      return { kind: "integer", isLong: false, minimum: schema.minimum, maximum: schema.maximum };
    case "number":
      return { kind: "number" };
    case "string":
      return { kind: "text", hint: hint(schema) };
    default:
      return { kind: "json" };
  }
}

function hint(schema: Schema): string {
  if (schema.format === "date-time") return "2026-01-31T12:00:00Z";
  if (schema.contentEncoding === "base64") return "base64";
  if (schema.pattern?.endsWith("s$")) return "1.5s";
  return "";
}

/** The value with which a field or an entry begins when it is added. */
export function emptyValue(shape: Shape): Json {
  switch (shape.kind) {
    case "object":
    case "map":
      return {} as JsonObject;
    case "list":
      return [];
    case "boolean":
      return false;
    case "integer":
    case "number":
      return 0;
    case "json":
      return {};
    case "enum":
      return shape.names[0] ?? "";
    default:
      return "";
  }
}

/** The kind of a field in a few letters, for documentation. */
export function kindName(root: Schema, raw: Schema): string {
  const shape = shapeOf(root, raw);
  switch (shape.kind) {
    case "object":
      return resolve(root, raw).title ?? raw.$ref?.replace(/^.*[/.]/, "") ?? "message";
    case "map":
      return `map of ${kindName(root, shape.value)}`;
    case "list":
      return `list of ${kindName(root, shape.item)}`;
    case "integer":
      return shape.isLong ? "64-bit integer" : "integer";
    case "text":
      return shape.hint === "base64" ? "bytes" : shape.hint.startsWith("2026") ? "time" : shape.hint ? "duration" : "text";
    default:
      return shape.kind;
  }
}
