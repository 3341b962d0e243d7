import { registerHooks } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

/** One line of the product, made wrong on purpose. */
export interface Mutation {
  /** Path from the repository's root. */
  file: string;
  /** Text that is in the file exactly once. */
  find: string;
  replace: string;
}

/** The repository's root, as a `file:` URL with a slash at its end. */
export const ROOT = new URL("../../../", import.meta.url);

const WORKERS = `data:text/javascript,${encodeURIComponent(
  `export class DurableObject { constructor(ctx, env) { this.ctx = ctx; this.env = env; } }
   export class WorkerEntrypoint extends DurableObject {}
   export const env = {};`,
)}`;

/**
 * Lets this thread import the Worker's modules: `cloudflare:workers` becomes a stand-in, and `.sql` files
 * are texts, as wrangler loads them. Applies the mutations to the sources as they are loaded. Returns a
 * function that throws if one of them was not applied.
 */
export function installLoader(mutations: readonly Mutation[]): () => void {
  const byUrl = Map.groupBy(mutations, (m) => new URL(m.file, ROOT).href);
  const applied = new Set<Mutation>();
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === "cloudflare:workers" ? { url: WORKERS, shortCircuit: true } : next(specifier, context),
    load: (url, context, next) => {
      if (url.endsWith(".sql") || (url.endsWith(".json") && context.importAttributes?.type === undefined)) {
        const source = text(next(url, { ...context, format: "module" }).source);
        const value = url.endsWith(".sql") ? JSON.stringify(source) : source;
        return { format: "module", source: `export default ${value};`, shortCircuit: true };
      }
      const wanted = byUrl.get(url);
      const loaded = next(url, context);
      if (wanted === undefined) return loaded;
      let source = text(loaded.source);
      for (const mutation of wanted) {
        source = mutate(source, mutation);
        applied.add(mutation);
      }
      return { ...loaded, source };
    },
  });
  return () => {
    for (const mutation of mutations)
      if (!applied.has(mutation)) throw new Error(`${mutation.file} was never loaded, so it was not mutated`);
  };
}

/** Replaces the one place that `find` names. Throws if there is none or more. */
export function mutate(source: string, { file, find, replace }: Mutation): string {
  const at = source.indexOf(find);
  if (at < 0)
    throw new Error(`${fileURLToPath(new URL(file, ROOT))} does not hold the text to mutate: ${find}`);
  if (source.indexOf(find, at + 1) >= 0)
    throw new Error(`${file} holds the text to mutate more than once: ${find}`);
  return source.slice(0, at) + replace + source.slice(at + find.length);
}

function text(source: unknown): string {
  if (typeof source === "string") return source;
  return new TextDecoder().decode(source as Uint8Array);
}

/** Imports a module of the product by its path from the root, past the type checker's boundaries. */
export const importProduct = (path: string): Promise<unknown> =>
  import(pathToFileURL(fileURLToPath(new URL(path, ROOT))).href);
