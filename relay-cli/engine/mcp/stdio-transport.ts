import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { EnginePorts } from "../ports.ts";
import { type ProcessGroup, spawnGroup } from "../process/group.ts";
import type { Guard } from "../process/guard.ts";

const MAX_LINE = 16_000_000;

/** How a server's process is started. */
export interface StdioServer {
  command: string;
  args: readonly string[];
  env: Record<string, string>;
  cwd: string;
}

/**
 * MCP over a child's standard input and output, a message a line. The client library's own transport starts the
 * server in our process group, where neither its children nor a killed engine would be seen to.
 */
export class GroupStdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  private group: ProcessGroup | undefined;
  private buffered = "";
  private readonly ports: EnginePorts;
  private readonly guard: Guard;
  private readonly server: StdioServer;

  constructor(ports: EnginePorts, guard: Guard, server: StdioServer) {
    this.ports = ports;
    this.guard = guard;
    this.server = server;
  }

  async start(): Promise<void> {
    const { command, args, env, cwd } = this.server;
    const group = spawnGroup(this.ports, this.guard, command, args, {
      cwd,
      env,
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.group = group;
    void group.ended.then(async () => {
      await group.destroy();
      this.onclose?.();
    });
    const { stdin, stdout } = group.child;
    stdin?.on("error", (error) => this.onerror?.(error));
    stdout?.setEncoding("utf8");
    stdout?.on("data", (text: string) => this.take(text));
    if (group.child.pid === undefined) {
      const { error } = await group.ended;
      throw error ?? new Error("it could not be started");
    }
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.group?.child.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  async close(): Promise<void> {
    await this.group?.destroy();
  }

  private take(text: string): void {
    const lines = (this.buffered + text).split("\n");
    this.buffered = lines.pop() ?? "";
    for (const line of lines) {
      if (line.trim() === "") continue;
      try {
        this.onmessage?.(JSON.parse(line) as JSONRPCMessage);
      } catch (error) {
        this.onerror?.(error as Error);
      }
    }
    if (this.buffered.length <= MAX_LINE) return;
    this.onerror?.(new Error("a message of more than 16 MB"));
    void this.close();
  }
}
