// The caller. Without access control the page works without a token.

import { getJson, send, whenSignedOut } from "../api/http";
import { asProblem, type Problem } from "../api/problem";

interface Answer {
  accessor_id?: string;
  signed_in?: boolean;
}

type Phase = "starting" | "in" | "out";

let phase = $state<Phase>("starting");
let accessor = $state("");
let signedIn = $state(false);
let isOffered = false;
/** The reason for the sign-in page, after a token has ended. */
let hasEnded = $state(false);
/** Grows with each change of the caller: pages begin again. */
let turn = $state(0);

export const session = {
  get phase(): Phase {
    return phase;
  },
  get accessor(): string {
    return accessor;
  },
  get isSignedIn(): boolean {
    return signedIn;
  },
  get hasEnded(): boolean {
    return hasEnded;
  },
  get turn(): number {
    return turn;
  },
};

/** Finds out who asks. A server without sessions answers otherwise, and needs no sign-in. */
export async function startSession(): Promise<void> {
  try {
    const answer = await getJson<Answer>("/v1/session");
    accessor = answer.accessor_id ?? "";
    signedIn = answer.signed_in ?? false;
    isOffered = true;
    phase = "in";
  } catch (error) {
    phase = asProblem(error).isSignedOut ? "out" : "in";
  }
  turn += 1;
}

export async function signIn(token: string): Promise<Problem | undefined> {
  try {
    await send("/v1/session", { method: "POST", body: { token } });
  } catch (error) {
    return asProblem(error);
  }
  hasEnded = false;
  await startSession();
  return undefined;
}

export async function signOut(): Promise<void> {
  await send("/v1/session", { method: "DELETE" }).catch(() => undefined);
  leave(false);
}

/** Shows the sign-in page. The pages are taken down with everything that they read. */
function leave(ended: boolean): void {
  phase = "out";
  accessor = "";
  signedIn = false;
  hasEnded = ended;
  turn += 1;
}

export function askForSignIn(): void {
  leave(false);
}

/** A caller without any right needs a token, if the server takes one. */
export function withoutRights(): void {
  if (isOffered && !signedIn && phase === "in") leave(false);
}

export function tokenEnded(): void {
  if (phase === "in") leave(signedIn);
}

whenSignedOut(tokenEnded);
