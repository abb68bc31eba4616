// The address as state: pages are paths below /ui/, and their questions are parameters.

const BASE = "/ui/";

interface Route {
  /** Decoded elements of the path behind /ui/. */
  path: string[];
  query: URLSearchParams;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function current(): Route {
  const rest = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : "";
  return { path: rest.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(location.search) };
}

let route = $state.raw<Route>(current());
/** Asked before the page is left, such as for a draft. */
let mayLeave: () => boolean = () => true;
let address = location.href;

export const router = {
  get path(): string[] {
    return route.path;
  },
  get query(): URLSearchParams {
    return route.query;
  },
  /** Identifies the page, without its questions. */
  get key(): string {
    return route.path.join("/");
  },
};

/** Registers a question that is asked before the page is left. Returns the end of it. */
export function guardLeaving(question: () => boolean): () => void {
  mayLeave = question;
  return () => (mayLeave = () => true);
}

/** The address of a page in the present place. Parameters replace those of the place; an empty one removes it. */
export function href(elements: string[], query: Record<string, string> = {}): string {
  const search = new URLSearchParams();
  for (const name of ["partition", "namespace"]) {
    const value = route.query.get(name);
    if (value) search.set(name, value);
  }
  for (const [name, value] of Object.entries(query)) {
    if (value) search.set(name, value);
    else search.delete(name);
  }
  const text = search.toString();
  return BASE + elements.map(encodeURIComponent).join("/") + (text ? `?${text}` : "");
}

export function go(to: string): void {
  if (!mayLeave()) return;
  mayLeave = () => true;
  history.pushState(null, "", to);
  address = location.href;
  route = current();
  window.scrollTo(0, 0);
}

/** Changes parameters of the present page, without an entry in the history. */
export function replaceQuery(changes: Record<string, string>): void {
  const search = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) search.set(name, value);
    else search.delete(name);
  }
  const text = search.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  address = location.href;
  route = current();
}

/** Follows links of the page itself, and the buttons of the browser. */
export function followLinks(): () => void {
  const onClick = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.origin !== location.origin) return;
    if (!link.pathname.startsWith(BASE)) return;
    event.preventDefault();
    go(link.href);
  };
  const onPop = () => {
    if (!mayLeave()) {
      history.pushState(null, "", address);
      return;
    }
    mayLeave = () => true;
    address = location.href;
    route = current();
  };
  document.addEventListener("click", onClick);
  window.addEventListener("popstate", onPop);
  return () => {
    document.removeEventListener("click", onClick);
    window.removeEventListener("popstate", onPop);
  };
}
