import * as z from "zod";
import type { RandomSource } from "./ports.ts";

/** An account: `acc_` and 128 random bits. */
export const accountId = z.string().regex(/^acc_[0-9a-f]{32}$/, "must be acc_ and 32 hex digits");
/** A project: `prj_` and its number, 48 random bits, so that it tells nothing of how many there are. */
export const projectId = z.string().regex(/^prj_[0-9a-f]{12}$/, "must be prj_ and 12 hex digits");
/** A paired relay: `dev_` and 128 random bits. */
export const deviceId = z.string().regex(/^dev_[0-9a-f]{32}$/, "must be dev_ and 32 hex digits");
/** A connected agent, that is (account, client): `agt_` and 128 random bits. */
export const agentId = z.string().regex(/^agt_[0-9a-f]{32}$/, "must be agt_ and 32 hex digits");
/** The durable identity of one saved Graph on one device: `gs_` and 32 hex digits (write-up, "What is a Graph session"). */
export const graphSessionId = z.string().regex(/^gs_[0-9a-f]{32}$/, "must be gs_ and 32 hex digits");
/** One queued run: a UUID of version 8 (RFC 9562 section 5.8) whose first 48 bits are its project's number. */
export const commandId = z
  .string()
  .regex(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/, "must be a command's UUID");
/** A relay's one try at a command, and the execution its history files: any UUID. */
export const uuid = z
  .string()
  .regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/, "must be a UUID in lower case");

const hex = (bytes: Uint8Array): string => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

/** `prefix` and 128 random bits in hex, such as `gs_…` and `dev_…`. */
export const newId = (prefix: "acc" | "dev" | "agt" | "gs", random: RandomSource): string =>
  `${prefix}_${hex(random.bytes(16))}`;

/** A new project's id. The caller inserts it under a unique key and draws again on a collision. */
export const newProjectId = (random: RandomSource): string => `prj_${hex(random.bytes(6))}`;

/** A random UUID of version 4, from the injected source. */
export function newUuid(random: RandomSource): string {
  return format(random.bytes(16), 4);
}

/**
 * A new command's id. It says where the command lives, not who may see it: 74 random bits follow the
 * project's 48, and the object checks the owner all the same.
 */
export function newCommandId(project: string, random: RandomSource): string {
  const bytes = random.bytes(16);
  const number = project.slice("prj_".length);
  for (let i = 0; i < 6; i++) bytes[i] = Number.parseInt(number.slice(2 * i, 2 * i + 2), 16);
  return format(bytes, 8);
}

/** The project a command's id routes to, or `undefined` if it is no command's id. */
export function projectOfCommand(id: string): string | undefined {
  return commandId.safeParse(id).success ? `prj_${id.slice(0, 8)}${id.slice(9, 13)}` : undefined;
}

function format(bytes: Uint8Array, version: 4 | 8): string {
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | (version << 4);
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const h = hex(bytes);
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
}
