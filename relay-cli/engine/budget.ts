import { EngineError } from "./errors.ts";

/** What one answer of a model took. */
interface Usage {
  input_tokens: number;
  output_tokens: number;
  /** US dollars, if a price is configured or the provider told it. */
  cost: number | null;
}

/** The tokens of a run, or of one Graph in it. What a sub-Graph uses counts here and with its callers. */
export interface Budget {
  /** Throws `token_ceiling` once the ceiling, or one above it, is reached. Called before each agent, not within one. */
  admit(): void;
  add(usage: Usage): void;
  /** Null while no agent ran. */
  tokens(): number | null;
  /** Null while nothing had a price. */
  cost(): number | null;
  /** A sub-Graph's own part, with its own ceiling. */
  part(ceiling: number | null, name: string): Budget;
}

/** A budget with this ceiling; null is none. `name` says whose it is, for the error. */
export function createBudget(ceiling: number | null, name: string, above?: Budget): Budget {
  let tokens: number | null = null;
  let cost: number | null = null;
  const budget: Budget = {
    admit() {
      above?.admit();
      if (ceiling !== null && (tokens ?? 0) >= ceiling)
        throw new EngineError(
          "token_ceiling",
          `The token ceiling of ${name} is reached: ${tokens} of ${ceiling} are used. No further agent is started.`,
        );
    },
    add(usage) {
      tokens = (tokens ?? 0) + usage.input_tokens + usage.output_tokens;
      if (usage.cost !== null) cost = (cost ?? 0) + usage.cost;
      above?.add(usage);
    },
    tokens: () => tokens,
    cost: () => cost,
    part: (own, ownName) => createBudget(own, ownName, budget),
  };
  return budget;
}
