import { ENGINE_LIMITS } from "./limits.ts";
import type { WireError } from "./process/messages.ts";

/** `value` cut to `max` UTF-16 units, one less where the cut would split a surrogate pair. */
export function cutText(value: string, max: number): string {
  if (value.length <= max) return value;
  const last = value.charCodeAt(max - 1);
  return value.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}

const read = (value: unknown, key: string): unknown => {
  try {
    return (value as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
};

/** What was thrown, whatever it was: an error, a string, nothing, or an object that throws when looked at. */
export function describeThrown(thrown: unknown): WireError {
  if (typeof thrown === "object" && thrown !== null) {
    const [name, message, stack, code] = ["name", "message", "stack", "code"].map((key) => read(thrown, key));
    const cause = read(thrown, "cause");
    const causeMessage = typeof cause === "object" && cause !== null ? read(cause, "message") : cause;
    if (typeof message === "string")
      return {
        name: typeof name === "string" ? cutText(name, 100) : "Error",
        message: cutText(
          typeof causeMessage === "string" && causeMessage !== "" && !message.includes(causeMessage)
            ? `${message} (${causeMessage})`
            : message,
          ENGINE_LIMITS.errorCharacters,
        ),
        ...(typeof stack === "string" ? { stack: cutText(stack, ENGINE_LIMITS.errorCharacters) } : {}),
        ...(typeof code === "string" ? { code: cutText(code, 100) } : {}),
      };
  }
  return { name: "Error", message: cutText(`It threw ${showValue(thrown)}.`, ENGINE_LIMITS.errorCharacters) };
}

function showValue(value: unknown): string {
  if (typeof value === "string") return `the text ${JSON.stringify(cutText(value, 1000))}`;
  try {
    if (typeof value === "object" && value !== null)
      return `an object that is no error: ${cutText(JSON.stringify(value), 1000)}`;
    return `${String(value)}, which is no error`;
  } catch {
    return "an object that is no error and cannot be shown";
  }
}
