import type { Mutation } from "../core/loader.ts";

/** One deliberate fault in the product. */
export interface Mutant {
  name: string;
  mutations: readonly Mutation[];
}

export const MUTANTS: readonly Mutant[] = [];
