import { type ParseArgsConfig, parseArgs } from "node:util";

/** Ends a script that cannot do what its command line says. */
export function fail(message: string): never {
  console.error(message);
  process.exit(2);
}

/** The options that a script was given; one that it does not know ends it with its usage. */
export function optionsOf<T extends NonNullable<ParseArgsConfig["options"]>>(options: T, usage: string) {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    return fail(`${error instanceof Error ? error.message : error}\n\n${usage}`);
  }
}
