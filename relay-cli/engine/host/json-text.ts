import { ENGINE_LIMITS } from "../limits.ts";

/** Why a value cannot be written as JSON, and where in it. */
export class NotJsonError extends Error {
  override readonly name = "NotJsonError";
}

/**
 * The JSON text of a value, or a NotJsonError that says what JSON cannot carry and where: a cycle, a BigInt, a function,
 * a symbol, a number that is not finite, a Map, a Set, binary data, nesting past `ENGINE_LIMITS.jsonDepth`.
 * As in JSON.stringify, `toJSON` is honoured and members that are undefined are left out; a whole value that
 * is undefined becomes null.
 */
export function toJsonText(value: unknown, what: string): string {
  if (value === undefined) return "null";
  check(value, what, 1, new Set());
  return JSON.stringify(value) ?? "null";
}

function check(given: unknown, path: string, depth: number, above: Set<object>): void {
  const value = throughToJson(given);
  switch (typeof value) {
    case "bigint":
      throw new NotJsonError(`${path} is a BigInt, which JSON cannot carry; make it a string.`);
    case "function":
    case "symbol":
      throw new NotJsonError(`${path} is a ${typeof value}, which JSON cannot carry.`);
    case "number":
      if (!Number.isFinite(value))
        throw new NotJsonError(`${path} is ${value}, which JSON cannot carry; make it null or a string.`);
      return;
    case "object":
      if (value !== null) checkObject(value, path, depth, above);
      return;
    default:
      return;
  }
}

function checkObject(value: object, path: string, depth: number, above: Set<object>): void {
  if (above.has(value)) throw new NotJsonError(`${path} holds itself (a cycle), which JSON cannot carry.`);
  if (depth > ENGINE_LIMITS.jsonDepth)
    throw new NotJsonError(`${shortPath(path)} nests deeper than ${ENGINE_LIMITS.jsonDepth} levels.`);
  if (value instanceof Map || value instanceof Set)
    throw new NotJsonError(
      `${path} is a ${value instanceof Map ? "Map" : "Set"}, which JSON would empty; make it an object or an array.`,
    );
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer)
    throw new NotJsonError(`${path} is binary data; make it a string, such as base64.`);
  if (value instanceof Promise) throw new NotJsonError(`${path} is a Promise; await it.`);
  above.add(value);
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) check(value[i], `${path}[${i}]`, depth + 1, above);
  } else {
    for (const key of Object.keys(value))
      check(
        (value as Record<string, unknown>)[key],
        /^[A-Za-z_$][\w$]*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`,
        depth + 1,
        above,
      );
  }
  above.delete(value);
}

function throughToJson(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const { toJSON } = value as { toJSON?: unknown };
  return typeof toJSON === "function" ? toJSON.call(value, "") : value;
}

const shortPath = (path: string): string => (path.length <= 80 ? path : `${path.slice(0, 80)}…`);
