import * as z from "zod";
import { RELAY_ERRORS, TOOL_ERRORS } from "../../src/protocol/errors.ts";
import { LIMITS, projectSettings } from "../../src/protocol/limits.ts";
import { jsonSchemaOf, TOOLS } from "../../src/protocol/tools.ts";
import { WAKE_CLOSES } from "../../src/protocol/wake.ts";

/** A Markdown table. Cells are text; a `|` in one is escaped. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((c) => c.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

interface NumberSchema {
  minimum?: number;
  maximum?: number;
  default?: number;
}

const settings = z.toJSONSchema(projectSettings).properties as Record<string, NumberSchema>;

/** The tables of docs/ that come from the code, by the name in their marker. */
export const DOCS_TABLES: Readonly<Record<string, string>> = {
  tools: table(
    ["tool", "scope", "changes something", "input"],
    TOOLS.map((tool) => [
      `\`${tool.name}\``,
      `\`${tool.scope}\``,
      tool.annotations.readOnlyHint ? "no" : "yes",
      Object.keys(jsonSchemaOf(tool.input, "input").properties ?? {})
        .map((field) => `\`${field}\``)
        .join(", "),
    ]),
  ),
  "relay-errors": table(
    ["code", "HTTP", "kind", "text"],
    Object.entries(RELAY_ERRORS).map(([code, row]) => [
      `\`${code}\``,
      String(row.status),
      row.kind,
      row.text,
    ]),
  ),
  "wake-closes": table(
    ["code", "text"],
    Object.values(WAKE_CLOSES).map(({ code, text }) => [String(code), text]),
  ),
  "tool-errors": table(
    ["code", "text"],
    Object.entries(TOOL_ERRORS).map(([code, text]) => [`\`${code}\``, text]),
  ),
  settings: table(
    ["setting", "least", "default", "most"],
    Object.entries(settings).map(([name, s]) => [
      `\`${name}\``,
      String(s.minimum),
      String(s.default),
      String(s.maximum),
    ]),
  ),
  limits: table(
    ["limit", "value"],
    Object.entries(LIMITS).map(([name, value]) => [`\`${name}\``, value.toLocaleString("en-US")]),
  ),
};

/** A page without the padding that a formatter gives its tables: two pages that say the same are then equal. */
export const withoutPadding = (page: string): string =>
  page.replace(/^\|.*\|$/gm, (row) => row.replace(/ +\|/g, " |").replace(/-{3,}/g, "---"));

const BLOCK = /(<!-- table: ([a-z-]+) -->)[\s\S]*?(<!-- end -->)/g;

/** A page with each marked table written anew. An unknown name is an error. */
export function withTables(page: string): string {
  return page.replace(BLOCK, (_, open: string, name: string, close: string) => {
    const content = DOCS_TABLES[name];
    if (content === undefined) throw new Error(`docs: there is no table named ${name}`);
    return `${open}\n${content}\n${close}`;
  });
}
