import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as tls from "node:tls";
import { CommandError } from "../exit-codes.ts";
import type { Terminal } from "./terminal.ts";

const PROXY_VARIABLES = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/** Makes `fetch` use the proxy that the environment names, and trust the network's own certificate authority. */
export function useEnvironment(terminal: Terminal, caFile: string | undefined): void {
  const proxied = PROXY_VARIABLES.some((name) => process.env[name]);
  if (proxied && process.env.NODE_USE_ENV_PROXY !== "1") {
    // Node 24.14 and later; an older one has it only as a start-up option.
    if ("setGlobalProxyFromEnv" in http) http.setGlobalProxyFromEnv();
    else
      terminal.say(
        `A proxy is set, and Node ${process.versions.node} does not use it by itself. Start with NODE_USE_ENV_PROXY=1 (Node 22.21 or later).`,
      );
  }
  if (caFile !== undefined) trust(caFile);
}

function trust(file: string): void {
  let pem: string;
  try {
    pem = readFileSync(file, "utf8");
  } catch (error) {
    throw new CommandError("usage", `The --ca-file ${file} cannot be read: ${(error as Error).message}`);
  }
  if (!pem.includes("-----BEGIN CERTIFICATE-----"))
    throw new CommandError("usage", `The --ca-file ${file} holds no certificate in PEM form.`);
  if (!("setDefaultCACertificates" in tls))
    throw new CommandError(
      "usage",
      `Node ${process.versions.node} cannot take --ca-file. Set NODE_EXTRA_CA_CERTS=${file} instead.`,
    );
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), pem]);
}
