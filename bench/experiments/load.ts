import { importProduct, installLoader, type Mutation } from "../../test/sim/core/loader.ts";
import { replacePlatform } from "../../test/sim/core/platform.ts";
import { installSockets } from "../../test/sim/server/sockets.ts";
import { Laboratory, type Product, type Setting } from "./laboratory.ts";

/** Makes a laboratory, and the time in it the only time there is. */
export type NewLaboratory = (name: string, options?: Setting) => Laboratory;

/** Loads the product into this thread, with one of its lines changed if an experiment asks for it. */
export async function loadProduct(mutations: readonly Mutation[] = []): Promise<NewLaboratory> {
  const checkApplied = installLoader(mutations);
  const enter = replacePlatform();
  installSockets();
  const parts = await Promise.all(
    [
      "src/durable/project-queue.ts",
      "src/worker/relay-api/index.ts",
      "relay-cli/relay/loop.ts",
      "relay-cli/store/index.ts",
      "relay-cli/store/migrate.ts",
    ].map((path) => importProduct(path) as Promise<object>),
  );
  checkApplied();
  const product = Object.assign({}, ...parts) as Product;
  return (name, options) => {
    const laboratory = new Laboratory(product, name, options);
    enter({ scheduler: laboratory.scheduler, random: laboratory.random });
    return laboratory;
  };
}
