import { findJsonFault, isJsonObject, type JsonObject } from "../../src/protocol/json.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { CommandError } from "../exit-codes.ts";
import { parseJson } from "../relay/failure.ts";
import type { Terminal } from "./terminal.ts";

/** A run's arguments as they were typed: a JSON object, or `-` for one on standard input. */
export async function readArguments(terminal: Terminal, typed: string | undefined): Promise<JsonObject> {
  if (typed === undefined) return {};
  const text = typed === "-" ? await terminal.readAll() : typed;
  const wrong = (what: string) => new CommandError("usage", `The arguments ${what}`);
  if (text.length > LIMITS.argumentsCharacters)
    throw wrong(`are over ${LIMITS.argumentsCharacters} characters.`);
  const value = parseJson(text);
  if (!isJsonObject(value)) throw wrong('must be a JSON object, such as {"folder": "."}.');
  const fault = findJsonFault(text);
  if (fault) throw wrong(`cannot be sent as they are: at character ${fault.at} it ${fault.text}.`);
  return value;
}
