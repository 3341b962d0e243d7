import { describe, expect, test } from "vitest";
import { renderRuns, type ShownRun } from "../../relay-cli/commands/live-view.ts";
import { visible } from "../../relay-cli/commands/safe-text.ts";
import { cutToWidth } from "../../relay-cli/commands/width.ts";

const run = (parts: Partial<ShownRun>): ShownRun => ({
  graph: "report",
  startedAt: 0,
  agents: new Map(),
  tokens: 0,
  message: "",
  percent: undefined,
  ...parts,
});

describe("what runs, as it is shown", () => {
  test("has the Graph, its time, agents, models and tokens, and what it says of itself", () => {
    expect(
      renderRuns(
        [
          run({
            agents: new Map([
              [1, "ollama/qwen3"],
              [2, "ollama/qwen3"],
              [3, "claude"],
            ]),
            tokens: 12_345,
            message: "Reading",
            percent: 41.6,
          }),
          run({ graph: "other", startedAt: 60_000 }),
        ],
        3_725_000,
        200,
      ),
    ).toEqual([
      "report 1:02:05 · 42 % · 3 agents (ollama/qwen3, claude) · 12,345 tokens · Reading",
      "other 1:01:05",
    ]);
  });

  test.each([20, 5, 1, 0])("fits into %i columns, wide characters counted", (columns) => {
    const [line = ""] = renderRuns([run({ message: "보고서를 작성하는 중입니다 🏔🏔🏔" })], 0, columns);
    const width = [...line].reduce((sum, c) => sum + (/[가-힣🏔]/u.test(c) ? 2 : 1), 0);
    expect(width).toBeLessThanOrEqual(columns);
  });

  test("takes one line, and obeys nothing that a Graph writes", () => {
    const [line] = renderRuns([run({ message: "a\nb\u001b[31mc\u202e" })], 0, 200);
    expect(line).toBe("report 0:00 · a b\\u001b[31mc\\u202e");
  });
});

test("a text is cut at its width, between whole characters", () => {
  expect(cutToWidth("안녕하세요", 10)).toBe("안녕하세요");
  expect(cutToWidth("안녕하세요", 9)).toBe("안녕하세…");
  expect(cutToWidth("e\u0301e\u0301e\u0301", 3)).toBe("e\u0301e\u0301e\u0301");
});

test("unsafe characters are shown as their codes", () => {
  expect(visible("tab\there\nnext\u0007\ud83d")).toBe("tab\\there\nnext\\u0007\ufffd");
});
