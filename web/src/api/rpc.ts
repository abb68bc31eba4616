// Methods of the server's own services, as JSON over HTTP (docs/http.md, "RPCs").

import { send } from "./http";

export function rpcPath(method: string): string {
  return `/rpc/mortise.v1.${method}`;
}

/** Calls a method, such as `PluginService/Inspect`. */
export async function call<T>(method: string, request: object = {}, signal?: AbortSignal): Promise<T> {
  const response = await send(rpcPath(method), { method: "POST", body: request, signal });
  return (await response.json()) as T;
}

/** Seconds of a duration such as `1.5s`. */
export function seconds(duration: string | undefined): number {
  return Number.parseFloat(duration ?? "") || 0;
}
