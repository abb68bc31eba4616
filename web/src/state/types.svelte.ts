// The types of the server. Pages ask for them again when a name is missing.

import { getJson } from "../api/http";
import type { DescribedType, ResourceType } from "../api/model";
import { asProblem, type Problem } from "../api/problem";
import { withoutRights } from "./session.svelte";

let all = $state.raw<ResourceType[]>([]);
let problem = $state.raw<Problem | undefined>();
let isRead = $state(false);

export const types = {
  get all(): ResourceType[] {
    return all;
  },
  get problem(): Problem | undefined {
    return problem;
  },
  get isRead(): boolean {
    return isRead;
  },
  find(name: string): ResourceType | undefined {
    return all.find((type) => type.name === name);
  },
};

export async function readTypes(): Promise<void> {
  try {
    const answer = await getJson<{ types: ResourceType[] }>("/v1/types");
    all = answer.types;
    problem = undefined;
  } catch (error) {
    problem = asProblem(error);
    if (problem.isDenied || problem.isSignedOut) all = [];
    if (problem.isDenied) withoutRights();
  }
  isRead = true;
}

export function forgetTypes(): void {
  all = [];
  problem = undefined;
  isRead = false;
}

export function describeType(name: string): Promise<DescribedType> {
  return getJson<DescribedType>(`/v1/types/${encodeURIComponent(name)}`);
}
