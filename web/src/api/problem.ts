// Errors of the server: problem objects (RFC 9457), as docs/http.md describes them.

/** A finding at a field. */
export interface Finding {
  path?: string;
  summary: string;
  detail?: string;
  severity?: string;
  line?: number;
  column?: number;
}

/** The body of a problem, as far as the page reads it. */
interface ProblemBody {
  type?: string;
  title?: string;
  status?: number;
  code?: string;
  detail?: string;
  violations?: Finding[];
  plugin?: { plugin?: string; version?: string; hook?: string; kind?: string };
}

/** A request that the server refused, or that did not reach it. */
export class Problem extends Error {
  readonly status: number;
  /** The end of the problem's type, such as `permission-denied`. */
  readonly kind: string;
  readonly title: string;
  readonly findings: Finding[];
  readonly plugin: ProblemBody["plugin"];

  constructor(status: number, body: ProblemBody, fallback: string) {
    super(body.detail ?? fallback);
    this.status = status;
    this.kind = (body.type ?? "").replace(/^.*:/, "") || "error";
    this.title = body.title ?? fallback;
    this.findings = body.violations ?? [];
    this.plugin = body.plugin;
  }

  get isUnreachable(): boolean {
    return this.status === 0;
  }

  get isDenied(): boolean {
    return this.status === 403;
  }

  get isSignedOut(): boolean {
    return this.status === 401;
  }

  get isMissing(): boolean {
    return this.status === 404;
  }

  /** Whether the stored version is another one than the request names. */
  get isConflict(): boolean {
    return this.status === 409 || this.status === 412;
  }
}

/** The problem in an answer. Texts of other programs, such as a proxy, become its detail. */
export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => "");
  let body: ProblemBody = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (parsed && typeof parsed === "object") body = parsed as ProblemBody;
  } catch {
    const isText = (response.headers.get("content-type") ?? "").startsWith("text/plain");
    if (isText && text.trim()) body = { detail: text.trim().slice(0, 2000) };
  }
  if ([502, 503, 504].includes(response.status) && !body.detail) {
    return new Problem(response.status, { title: "The server does not answer" }, `Something in front of it answered ${response.status}.`);
  }
  return new Problem(response.status, body, `The server answered ${response.status}`);
}

/** Any thrown value as a problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, { title: "The page failed" }, String(error));
}
