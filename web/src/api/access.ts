// AuthService (proto/mortise/v1/auth_service.proto), and the data of tokens and policies (acl.proto).

import type { Id } from "./model";
import type { Finding } from "./problem";
import { call } from "./rpc";

export interface Caller {
  name?: string;
  accessorId?: string;
  policies?: string[];
  partition?: string;
  namespace?: string;
  expiresAt?: string;
  enforced?: boolean;
  policyFaults?: string[];
}

export interface Question {
  verb: string;
  id: Partial<Id>;
  asToken?: string;
  asPolicies?: string[];
}

export interface Decision {
  allowed?: boolean;
  reason?: string;
}

export interface TypeRule {
  types?: string[];
  verbs?: string[];
  partitions?: string[];
  namespaces?: string[];
  names?: string[];
  namePrefixes?: string[];
  deny?: boolean;
}

export interface Policy {
  description?: string;
  rules?: string;
  typeRules?: TypeRule[];
}

export interface Token {
  description?: string;
  policies?: string[];
  partition?: string;
  namespace?: string;
  expiresAt?: string;
}

export const TOKEN = "mortise.v1.Token";
export const POLICY = "mortise.v1.Policy";

export function whoAmI(signal?: AbortSignal): Promise<Caller> {
  return call("AuthService/WhoAmI", {}, signal);
}

export function canI(question: Question, signal?: AbortSignal): Promise<Decision> {
  return call("AuthService/CanI", question, signal);
}

/** Words of a policy that name nothing now. A word without a meaning is a problem. */
export async function checkPolicy(policy: Policy, signal?: AbortSignal): Promise<Finding[]> {
  return (await call<{ warnings?: Finding[] }>("AuthService/CheckPolicy", { policy }, signal)).warnings ?? [];
}
