import { boundCompletion, type Completion } from "../../src/protocol/completion.ts";
import { TOOL_ERRORS } from "../../src/protocol/errors.ts";
import { newCommandId } from "../../src/protocol/ids.ts";
import type { Experiment, Figure } from "./figure.ts";
import type { NewLaboratory } from "./load.ts";

/** The longest text that still goes out whole, of one character over and over. */
function longest(character: string): { characters: number; bytes: number } {
  const fits = (length: number): boolean => {
    const completion: Completion = {
      execution_id: "00000000-0000-4000-8000-000000000000",
      status: "completed",
      result: character.repeat(length),
      total_tokens: null,
      reported_cost: null,
    };
    return boundCompletion(completion).result !== undefined;
  };
  let low = 0;
  let high = 200_000;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return { characters: low, bytes: Buffer.byteLength(character.repeat(low)) };
}

/** How big a result can be. */
export function resultSize(): Experiment {
  const row = (what: string, character: string, published: readonly [number, number]): Figure[] => {
    const { characters, bytes } = longest(character);
    return [
      {
        what: `${what}: characters that still fit`,
        published: published[0],
        ours: characters,
        unit: "characters",
      },
      { what: `${what}: as UTF-8`, published: published[1], ours: bytes, unit: "bytes" },
    ];
  };
  return {
    name: "result-size",
    title: "How big can the result be?",
    method:
      "The longest text that the product's own bound lets through whole, with neither tokens nor cost counted.",
    figures: [...row("ascii", "a", [99_899, 99_899]), ...row("japanese", "あ", [99_899, 299_697])],
  };
}

/** Who else can see the run. */
export async function visibility(newLaboratory: NewLaboratory): Promise<Experiment> {
  const lab = newLaboratory("visibility");
  await lab.until(lab.begin());
  const { command_id } = await lab.until(lab.run(20));
  const seen = async (id: string, agent: string) =>
    (await lab.until(lab.get(id, 0, agent))) === undefined ? TOOL_ERRORS.run_not_found : "the run";
  const others = await seen(command_id, lab.other);
  const unknown = await seen(newCommandId(lab.project, lab.random), lab.agent);
  lab.close();
  const text = "Graph run not found or access removed";
  return {
    name: "visibility",
    title: "Who else can see the run?",
    method: "Another connected agent asks for the run, and its own agent for an id that does not exist.",
    figures: [
      { what: "another agent reads the run", published: text, ours: others, unit: "" },
      { what: "an id that does not exist", published: text, ours: unknown, unit: "" },
    ],
  };
}
