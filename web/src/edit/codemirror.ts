// CodeMirror, in a chunk of its own. It stands in a shadow root: there its styles are constructed sheets, which the policy of the page
// allows, and not style elements, which it forbids.

import { autocompletion, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, defaultHighlightStyle, HighlightStyle, indentService, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import type { Schema } from "../api/model";
import { offersAt } from "./complete";

export interface LineFinding {
  line: number;
  column: number | undefined;
  text: string;
  isWarning: boolean;
}

export interface Editor {
  text(): string;
  setText(text: string): void;
  setFindings(findings: LineFinding[]): void;
  focus(): void;
  destroy(): void;
}

const look = EditorView.theme({
  "&": { fontSize: "12.5px", backgroundColor: "var(--surface)", color: "var(--text)", maxHeight: "70vh", minHeight: "260px" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--muted)", border: "none" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in srgb, var(--focus) 30%, transparent)",
  },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line-strong)" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent-ground)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--muted)" },
  ".cm-tooltip.cm-completionInfo": { maxWidth: "320px", whiteSpace: "pre-line" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warn)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--warn)" },
  { tag: tags.comment, color: "var(--muted)" },
]);

/** A new line stands below the one before it; after a key without a value it is one step deeper. */
const indentation = indentService.of((context, at) => {
  const { text } = context.lineAt(at, -1);
  const [before = ""] = /^\s*(?:- )*/.exec(text) ?? [];
  return before.length + (/[:{[]\s*$/.test(text) ? 2 : 0);
});

/** Completion from a schema. JSON has quotes and braces in place of indentation, and gets no offers. */
function completion(schema: Schema) {
  return (context: CompletionContext): CompletionResult | null => {
    const before = context.state.sliceDoc(0, context.pos);
    if (before.trimStart().startsWith("{")) return null;
    const found = offersAt(schema, before);
    if (!found || (found.typed === 0 && !context.explicit && found.isKey)) return null;
    const { offers, isKey, typed } = found;
    return {
      from: context.pos - typed,
      options: offers.map(({ label, detail, info }) => ({
        label,
        detail,
        type: isKey ? "property" : "enum",
        ...(info && { info }),
        apply: isKey ? `${label}: ` : label,
      })),
      validFor: /^[\w-]*$/,
    };
  };
}

/** Makes an editor in an element. Tab is not a key of it, and so remains the way out. */
export function makeEditor(
  host: HTMLElement,
  schema: Schema,
  text: string,
  label: string,
  changed: (text: string) => void,
): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        indentUnit.of("  "),
        indentation,
        yaml(),
        syntaxHighlighting(colours),
        syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
        lintGutter(),
        autocompletion({ override: [completion(schema)], icons: false }),
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
        look,
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    setText: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    setFindings: (findings) => {
      const { doc } = view.state;
      const diagnostics = findings.map((finding): Diagnostic => {
        const line = doc.line(Math.max(1, Math.min(doc.lines, finding.line)));
        const from = finding.column ? Math.min(line.to, line.from + finding.column - 1) : line.from;
        return { from, to: line.to, message: finding.text, severity: finding.isWarning ? "warning" : "error" };
      });
      view.dispatch(setDiagnostics(view.state, diagnostics));
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
