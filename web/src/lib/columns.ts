// Columns of a type's table: those that its plugin names, or else the first plain fields of its message.

import type { DescribedType } from "../api/model";
import { shapeOf } from "./schema";

const MOST = 4;

export function columnsOf(type: DescribedType): { name: string; path: string }[] {
  if (type.printerColumns.length > 0) return type.printerColumns.map(({ name, path }) => ({ name: calm(name), path }));
  const shape = shapeOf(type.schema, type.schema);
  if (shape.kind !== "object") return [];
  const plain = shape.properties.filter(([, field]) => {
    const of = shapeOf(type.schema, field);
    return ["text", "enum", "boolean", "integer", "number"].includes(of.kind) && !(of.kind === "text" && of.hint === "base64");
  });
  return plain.slice(0, MOST).map(([name]) => ({ name: title(name), path: `data.${name}` }));
}

/** Plugins write names of columns in capitals, for terminals. */
function calm(name: string): string {
  return name === name.toUpperCase() ? name.charAt(0) + name.slice(1).toLowerCase() : name;
}

function title(name: string): string {
  const words = name.replace(/([A-Z])/g, " $1").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
