import { spawn } from "node:child_process";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");
const SUITE = join(ROOT, "node_modules/@modelcontextprotocol/conformance/dist/index.js");

/** Runs the MCP conformance suite's program; the answer is its exit code and what it printed. `results` is a folder of its own. */
export function conformance(
  args: readonly string[],
  results: string,
  onOutput: (text: string) => void = () => {},
): Promise<{ code: number | null; output: string }> {
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, [SUITE, ...args, "-o", results], { cwd: results });
    let output = "";
    const take = (data: Buffer) => {
      output += data.toString();
      onOutput(output);
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.on("error", fail).on("close", (code) => done({ code, output }));
  });
}

/** The suite's scenarios for authorization servers; `approve` is given the consent page that the suite prints. */
export async function authorizationScenarios(
  server: { issuer: string; clientId: string; port: number },
  results: string,
  approve: (page: string) => Promise<unknown>,
): Promise<{ code: number | null; output: string }> {
  let answered: Promise<unknown> | undefined;
  const ended = await conformance(
    [
      ...["authorization", "--url", server.issuer, "--client-id", server.clientId],
      ...["--resource", `${server.issuer}/mcp`, "--port", String(server.port)],
    ],
    results,
    (output) => {
      const [page] = /http:\/\/localhost:\S+\/authorize\?\S+(?=\s)/.exec(output) ?? [];
      if (page !== undefined) answered ??= approve(page);
    },
  );
  await answered;
  return ended;
}
