import dgram from "node:dgram";
import dns from "node:dns";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";

const HINT = 'A Graph reaches the network by tool("fetch"), which its owner approves.';

const refuse = (): never => {
  throw Object.assign(new Error(HINT), { code: "ERR_ACCESS_DENIED" });
};

/**
 * Node's permission model leaves the network open until version 25. Everything in Node that talks to it
 * goes through these few methods, so they are taken away. A fence for programs with bugs and packages with habits; a
 * program bent on harm is one its owner should not have saved.
 */
export function closeNetwork(): void {
  const targets: [object, string[]][] = [
    [net.Socket.prototype, ["connect"]],
    [net.Server.prototype, ["listen"]],
    [dgram.Socket.prototype, ["bind", "connect", "send"]],
    ...[dns, dns.promises, dns.Resolver.prototype, dns.promises.Resolver.prototype].map(
      (owner): [object, string[]] => [
        owner,
        Object.getOwnPropertyNames(owner).filter((name) => /^(?:lookup|resolve|reverse)/.test(name)),
      ],
    ),
    [globalThis, ["fetch", "WebSocket", "EventSource"].filter((name) => name in globalThis)],
  ];
  for (const [owner, names] of targets)
    for (const name of names)
      Object.defineProperty(owner, name, { value: refuse, writable: false, configurable: false });
  syncBuiltinESMExports();
}
