import manifest from "./package.json" with { type: "json" };

/** The version of this graph-relay. */
export const VERSION: string = manifest.version;
