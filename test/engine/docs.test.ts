import { readdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { expect, test } from "vitest";
import {
  DEFAULT_GRAPH_SETTINGS,
  ENGINE_ERROR_CODES,
  ENGINE_LIMITS,
  SETTING_RANGES,
} from "../../relay-cli/engine/index.ts";
import { BUILT_IN_TOOLS, inputSchema } from "../../relay-cli/engine/tools/tool-box.ts";
import { withoutPadding } from "../../scripts/lib/docs-tables.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const page = withoutPadding(readFileSync(join(ROOT, "docs/graphs.md"), "utf8"));
const number = (n: number): string => n.toLocaleString("en");

test("docs/graphs.md has every error, with a line of its own", () => {
  for (const code of ENGINE_ERROR_CODES) expect(page).toContain(`\n| \`${code}\` | `);
});

test("docs/graphs.md has every setting with its range and default", () => {
  for (const name of Object.keys(DEFAULT_GRAPH_SETTINGS).filter((n) => n !== "folders" && n !== "approvals"))
    expect(page).toMatch(new RegExp(`^\\| \`${name}\` \\|`, "m"));
  for (const [name, [least, usual, most]] of Object.entries(SETTING_RANGES))
    expect(page).toMatch(
      new RegExp(
        `^\\| \`${name}\` .*\\| ${number(least)} \\| ${number(usual)} \\| ${number(most)} \\|$`,
        "m",
      ),
    );
});

test("docs/graphs.md has every limit's figure", () => {
  const { chunkCharacters, bytesPerSecond, ...told } = ENGINE_LIMITS;
  for (const [name, value] of Object.entries(told)) {
    const figure = name.endsWith("Milliseconds") ? `${value / 1000} s` : number(value);
    expect(page, name).toContain(figure);
  }
});

test("docs/graphs.md has every tool with each field of its input", () => {
  for (const tool of BUILT_IN_TOOLS) {
    const row = page.split("\n").find((line) => line.startsWith(`| \`${tool.name}\``)) ?? "";
    const { properties } = inputSchema(tool) as { properties: object };
    for (const field of Object.keys(properties)) expect(row, tool.name).toContain(`\`${field}\``);
    expect(row).toMatch(new RegExp(`\\| ${tool.defaultApproval} \\|$`));
  }
});

test("docs/graphs.md has every template", () => {
  for (const file of readdirSync(join(ROOT, "relay-cli/templates")))
    expect(page).toContain(`\n| \`${basename(file, ".mjs")}\``);
});
