// Partition and namespace of the page: parameters of its address, so that a link leads to the same place.

import type { Place } from "../api/resources";
import { go, router } from "./router.svelte";

// Derived by themselves: another parameter of the address, such as a filter, must not restart a stream.
const partition = $derived(router.query.get("partition") || "default");
const namespace = $derived(router.query.get("namespace") || "default");
const current = $derived<Place>({ partition, namespace });

export const place = {
  get partition(): string {
    return partition;
  },
  get namespace(): string {
    return namespace;
  },
  get current(): Place {
    return current;
  },
};

export function moveTo(to: Place): void {
  const search = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(to)) {
    if (value && value !== "default") search.set(name, value);
    else search.delete(name);
  }
  const text = search.toString();
  go(location.pathname + (text ? `?${text}` : ""));
}
