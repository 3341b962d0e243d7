import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { engineConfig } from "../../relay-cli/engine/index.ts";
import { checkLeftovers, openWorkshop, processesWith } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const marker = `marker-${crypto.randomUUID()}`;
const config = engineConfig.parse({
  providers: {
    "my-llm": {
      kind: "command",
      command: ["my-llm", "--model={model}", "--system", "{system}", "--ask", "{prompt}"],
      model: "tiny",
      prices: { tiny: { input_per_million: 1e6, output_per_million: 0 } },
    },
    hangs: { kind: "command", command: ["hangs"], timeout_seconds: 1 },
    breaks: { kind: "command", command: ["breaks"] },
    absent: { kind: "command", command: ["no-such-program"] },
  },
});
const env: Record<string, string> = { HOME: "/nowhere", OWN_SIGN_IN: "yes" };
const shop = openWorkshop({}, { config: async () => config, env });
const bin = join(shop.folder, "bin");
mkdirSync(bin);
env.PATH = `${bin}${delimiter}/usr/bin${delimiter}/bin`;
checkLeftovers();
afterAll(() => shop.close());

/** Puts a program into the PATH that notes its arguments and standard input, and then does `script`. */
function program(name: string, script: string): { seen(): { args: string[]; input: string } } {
  const path = join(bin, name);
  writeFileSync(
    path,
    `#!/bin/sh\nprintf '%s\\n' "$@" > ${path}.args\ncase "$*" in *--ask*) : > ${path}.in ;; *) cat > ${path}.in ;; esac\n${script}\n`,
  );
  chmodSync(path, 0o755);
  return {
    seen: () => ({
      args: readFileSync(`${path}.args`, "utf8").trimEnd().split("\n"),
      input: readFileSync(`${path}.in`, "utf8"),
    }),
  };
}

test("claude -p: prompt by standard input, answer, tokens and cost from its JSON", async () => {
  const claude = program(
    "claude",
    `echo '{"type":"result","is_error":false,"result":"It is fine.","total_cost_usd":0.25,"usage":{"input_tokens":3,"cache_read_input_tokens":90,"cache_creation_input_tokens":7,"output_tokens":20}}'`,
  );
  shop.graph("reviews", "return api.agent('Look at --this', { model: api.args.model, system: 'Be kind.' });");
  const { result, outcome } = await shop.run("reviews", { model: "claude" });
  expect(result).toMatchObject({
    text: "It is fine.",
    usage: { inputTokens: 100, outputTokens: 20, totalTokens: 120 },
  });
  expect(outcome).toMatchObject({ status: "completed", total_tokens: 120, reported_cost: 0.25 });
  expect(claude.seen()).toEqual({
    args: ["-p", "--output-format", "json"],
    input: "Be kind.\n\nLook at --this",
  });
  await shop.run("reviews", { model: "claude/sonnet" });
  expect(claude.seen().args).toEqual(["-p", "--output-format", "json", "--model", "sonnet"]);
});

test("codex exec: the last message of its events is the answer", async () => {
  const codex = program(
    "codex",
    `echo '{"type":"thread.started"}'; echo 'not json'; echo '{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}'; echo '{"type":"turn.completed","usage":{"input_tokens":40,"output_tokens":2}}'`,
  );
  shop.graph("codes", "return api.agent('Do it', { model: 'codex' });");
  const { result, outcome } = await shop.run("codes");
  expect(result).toMatchObject({ text: "Done.", usage: { totalTokens: 42 } });
  expect(outcome.reported_cost).toBeNull();
  expect(codex.seen()).toEqual({
    args: ["exec", "--json", "--skip-git-repo-check", "--sandbox", "read-only", "-"],
    input: "Do it",
  });
});

test("a command by template: its words are filled in as arguments, never by a shell; tokens are estimated", async () => {
  const mine = program("my-llm", `echo "home is $HOME, signed in: $OWN_SIGN_IN"`);
  shop.graph("templated", "return api.agent('$(touch /tmp/x); `id`', { model: 'my-llm', system: 'S' });");
  const { result, outcome } = await shop.run("templated");
  expect(result).toMatchObject({ text: "home is /nowhere, signed in: yes" });
  expect(mine.seen().args).toEqual(["--model=tiny", "--system", "S", "--ask", "$(touch /tmp/x); `id`"]);
  expect(outcome.total_tokens).toBe(Math.ceil("S$(touch /tmp/x); `id`".length / 4) + 8);
  expect(outcome.reported_cost).toBe(6);
});

test("an answer by schema is read out of what the command says, and checked", async () => {
  const claude = program("claude", `printf '%s' '{"type":"result","result":"Here:\\n{\\"ok\\": true}"}'`);
  shop.graph(
    "by-schema",
    "return (await api.agent('x', { model: 'claude', schema: { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] } })).object;",
  );
  expect((await shop.run("by-schema")).result).toEqual({ ok: true });
  expect(claude.seen().input).toMatch(/^Answer with one JSON value that fits this JSON Schema/);
});

test.each([
  ["fails", "breaks", "echo 'no credit left' >&2; exit 3", /^breaks failed \(exit code 3\): no credit left/],
  [
    "says that it failed",
    "claude",
    `echo '{"type":"result","is_error":true,"result":"Invalid API key"}'`,
    /^claude failed .*: Invalid API key/,
  ],
  ["takes too long", "hangs", `sleep 998 & sleep 999 # ${marker}`, /^hangs took more than 1 s/],
])("a command that %s is an error of the agent's, and leaves no process", async (_, name, script, error) => {
  program(name, script);
  const slug = `try-${name}`;
  shop.graph(slug, `return api.agent('x', { model: ${JSON.stringify(name)} });`);
  const { outcome, events } = await shop.run(slug);
  expect(outcome).toMatchObject({ status: "failed", error: expect.stringMatching(error) });
  expect(events).toContainEqual(
    expect.objectContaining({ type: "agent_finished", error: expect.stringMatching(error) }),
  );
  expect(processesWith(marker)).toEqual([]);
});

test("a command that is not installed is named", async () => {
  shop.graph("absent", "return api.agent('x', { model: 'absent' });");
  expect((await shop.run("absent")).outcome.error).toMatch(
    /^absent: "no-such-program" cannot be run \(ENOENT\)/,
  );
});

test("a command has tools of its own: the engine's are refused to it", async () => {
  shop.graph("tooled", "return api.agent('x', { model: 'claude', tools: ['shell'] });");
  expect((await shop.run("tooled")).outcome.error).toMatch(/is a command with tools of its own/);
});

test("a key in the OS keychain is looked up by its account, and only then", async () => {
  const lookup = program("secret-tool", "echo sk-from-keychain");
  const headers: (string | null)[] = [];
  const kept = openWorkshop(
    {},
    {
      env,
      config: async () =>
        engineConfig.parse({
          providers: {
            safe: {
              kind: "openai-compatible",
              base_url: "http://127.0.0.1:9/v1",
              api_key_keychain: "my-account",
            },
          },
        }),
      fetch: async (_, init) => {
        headers.push(new Headers(init?.headers).get("authorization"));
        return Response.json({
          id: "x",
          created: 0,
          model: "m",
          choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
        });
      },
    },
  );
  kept.graph("asks", "return (await api.agent('x', { model: 'safe/m' })).text;");
  expect((await kept.run("asks")).result).toBe("hi");
  expect(headers).toEqual(["Bearer sk-from-keychain"]);
  expect(lookup.seen().args).toEqual(["lookup", "service", "graph-relay", "account", "my-account"]);
  program("secret-tool", "exit 1");
  expect((await kept.run("asks")).outcome.error).toMatch(
    /keychain has no key of provider safe \(service graph-relay, account my-account\)/,
  );
  kept.close();
});
