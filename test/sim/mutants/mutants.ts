import type { Mutation } from "../core/loader.ts";
import { LAPTOP_MUTANTS } from "./laptop.ts";
import { SERVER_MUTANTS } from "./server.ts";

/** One deliberate fault in the product. */
export interface Mutant {
  /** What is wrong, in a few words. */
  name: string;
  mutations: readonly Mutation[];
}

/** Deliberate faults that the simulation must catch, each for itself. */
export const MUTANTS: readonly Mutant[] = [...SERVER_MUTANTS, ...LAPTOP_MUTANTS];
