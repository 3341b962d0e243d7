import type { Dice } from "../core/dice.ts";
import type { Behaviour } from "../laptop/engine.ts";
import type { Account, Agent, Laptop, Operation, Patience } from "./scenario.ts";

/** A world that outlasts the shortest expiry of a queued command, in milliseconds. */
export const LONG_WORLD = 420_000;

type Draft = Operation extends infer O ? (O extends Operation ? Omit<O, "n" | "at"> : never) : never;
type Sheet = { at: number; draft: Draft }[];
type Run = { at: number; agent: Agent; row: number };

/** What everyone does in one world, in order of time. `busy`: every agent asks again and again. */
export function drawOperations(
  draw: Dice,
  accounts: readonly Account[],
  calmAt: number,
  busy: boolean,
): Operation[] {
  const sheet: Sheet = [];
  const runs: Run[] = [];
  for (const account of accounts) {
    for (const agent of account.agents) drawRuns(draw, account, agent, calmAt, busy, sheet, runs);
    drawOwner(draw, account, runs, calmAt, sheet);
    for (const laptop of account.laptops) drawTrouble(draw, laptop, calmAt, sheet);
    for (const project of account.projects)
      for (let i = draw.int(0, 2); i > 0; i--)
        sheet.push({ at: draw.int(0, calmAt), draft: { do: "evict", project: project.id } });
  }
  const agents = accounts.flatMap((a) => a.agents);
  for (const run of runs) {
    if (draw.chance(0.3)) {
      const at = run.at + (draw.chance(0.5) ? draw.int(0, 40_000) : draw.int(0, 4_000));
      sheet.push({ at, draft: { do: "cancel", agent: run.agent.name, of: run.row } });
    }
    if (draw.chance(0.15)) {
      const draft: Draft = {
        do: "peek",
        agent: draw.pick(agents).name,
        of: run.row,
        cancel: draw.chance(0.5),
      };
      sheet.push({ at: run.at + draw.int(0, 60_000), draft });
    }
    if (draw.chance(0.25))
      sheet.push({
        at: run.at + draw.int(0, draw.pick([500, 120_000])),
        draft: { do: "run again", agent: run.agent.name, of: run.row },
      });
  }
  // `of` names rows of the sheet until here; from here on it names the operation's own number.
  return sheet
    .map(({ at, draft }, n) => ({ n, at, ...draft }) as Operation)
    .sort((a, b) => a.at - b.at || a.n - b.n);
}

function drawRuns(
  draw: Dice,
  account: Account,
  agent: Agent,
  calmAt: number,
  allBusy: boolean,
  sheet: Sheet,
  runs: Run[],
): void {
  const graphs = account.laptops.flatMap((l) => l.graphs.map((g) => g.id));
  // Most agents ask now and then. A few keep the laptop busy, with what is soon done.
  const busy = draw.chance(0.35) || allBusy;
  const bursts = allBusy ? draw.int(40, 80) : busy ? draw.int(8, 30) : draw.int(1, 3);
  let asked = 0;
  for (let b = 0; b < bursts; b++) {
    const at = draw.int(0, calmAt * 0.8);
    for (let i = draw.pick([1, 1, 2, 3]); i > 0; i--) {
      // Agents count alike, so that each uses keys that others use too.
      const key = `run-number-${++asked}`;
      const graph = draw.pick(graphs);
      const moment = at + draw.int(0, 3_000);
      const behaviour = drawBehaviour(draw, calmAt - moment, busy);
      runs.push({ at: moment, agent, row: sheet.length });
      const patience = drawPatience(draw);
      sheet.push({ at: moment, draft: { do: "run", agent: agent.name, graph, key, behaviour, patience } });
      if (draw.chance(0.12)) {
        const other = draw.chance(0.5) ? graph : draw.pick(graphs);
        const changed = { ...behaviour, mark: `${behaviour.mark}-otherwise` };
        sheet.push({
          at: moment + draw.int(1, 60_000),
          draft: { do: "run otherwise", agent: agent.name, graph: other, key, behaviour: changed },
        });
      }
    }
  }
  if (draw.chance(0.3)) sheet.push({ at: draw.int(0, calmAt), draft: { do: "list", agent: agent.name } });
}

function drawBehaviour(draw: Dice, left: number, busy: boolean): Behaviour {
  const kind =
    busy && draw.chance(0.97) ? "at once" : draw.pick(["quick", "quick", "quick", "long", "hangs"] as const);
  const length = {
    "at once": draw.int(0, 2_000),
    quick: draw.int(500, 20_000),
    long: draw.int(20_000, 150_000),
    hangs: left + draw.int(0, 180_000),
  };
  return {
    ends_after: length[kind],
    outcome: draw.chance(0.8) ? "completed" : "failed",
    result_size: draw.chance(0.04) ? draw.int(99_000, 101_000) : draw.int(0, 50),
    when_stopped: draw.pick(["ends", "ends", "ignores", "finishes"]),
    approval: draw.chance(0.15) ? { at: draw.int(0, 3_000), answered_after: draw.int(1_000, 40_000) } : null,
    mark: `secret-${Buffer.from(draw.bytes(6)).toString("hex")}`,
  };
}

const drawPatience = (draw: Dice): Patience => ({
  wait_seconds: draw.pick([0, 10, 40, 50]),
  pause: draw.pick([1_000, 10_000, 30_000]),
  questions: draw.pick([1, 5, 12]),
});

/** The owner shares, unshares, renames, disables; revokes and connects; removes a device. */
function drawOwner(draw: Dice, account: Account, runs: readonly Run[], calmAt: number, sheet: Sheet): void {
  const own = runs.filter((run) => account.agents.includes(run.agent));
  const busy = draw.pick([0, 0, 1, 3, 6]);
  for (let i = 0; i < busy; i++) {
    const laptop = draw.pick(account.laptops);
    const project = draw.pick(account.projects).id;
    const graph = draw.pick(laptop.graphs);
    // Mostly while something is asked for, picked up or under way, or is shared for the first time.
    const near = draw.pick(own).at + draw.int(0, draw.pick([500, 8_000, 25_000]));
    const at = draw.pick([near, near, near, draw.int(0, 40_000), draw.int(0, calmAt)]);
    const back = at + draw.int(0, draw.pick([2_000, 60_000]));
    switch (draw.pick(["share", "project", "slug", "agent", "device"] as const)) {
      case "share":
        sheet.push({ at, draft: { do: "unshare", laptop: laptop.name, project, graph: graph.id } });
        if (draw.chance(0.6))
          sheet.push({ at: back, draft: { do: "share", laptop: laptop.name, project, graph: graph.id } });
        break;
      case "project":
        sheet.push({ at, draft: { do: "disable", laptop: laptop.name, project } });
        if (draw.chance(0.6)) sheet.push({ at: back, draft: { do: "enable", laptop: laptop.name, project } });
        break;
      case "slug":
        sheet.push({
          at,
          draft: { do: "rename", laptop: laptop.name, graph: graph.id, slug: `renamed-${sheet.length}` },
        });
        if (draw.chance(0.3))
          sheet.push({
            at: back,
            draft: { do: "rename", laptop: laptop.name, graph: graph.id, slug: graph.slug },
          });
        break;
      case "agent": {
        const agent = draw.pick(account.agents);
        const some = agent.projects.filter(() => draw.chance(0.6));
        const kept = some.length > 0 ? some : agent.projects;
        const leave: Draft = { do: "revoke", agent: agent.name, projects: [] };
        const change: Draft = { do: "connect", agent: agent.name, projects: kept };
        sheet.push({ at, draft: draw.chance(0.6) ? leave : change });
        if (draw.chance(0.6))
          sheet.push({ at: back, draft: { do: "connect", agent: agent.name, projects: agent.projects } });
        break;
      }
      case "device":
        if (draw.chance(0.4)) sheet.push({ at, draft: { do: "remove device", laptop: laptop.name } });
        break;
    }
  }
}

/** What happens to a laptop beside its owner's wishes. */
function drawTrouble(draw: Dice, laptop: Laptop, calmAt: number, sheet: Sheet): void {
  const name = laptop.name;
  // A laptop that is away for longer than a queued command waits.
  if (calmAt > LONG_WORLD && draw.chance(0.5)) {
    const [leave, back] = draw.pick([
      ["kill", "start"],
      ["sleep", "wake"],
      ["go offline", "go online"],
    ] as const);
    sheet.push({ at: draw.int(0, 100_000), draft: { do: leave, laptop: name } });
    sheet.push({ at: calmAt, draft: { do: back, laptop: name } });
    return;
  }
  for (let i = draw.pick([0, 0, 1, 2, 3]); i > 0; i--) {
    const at = draw.int(0, calmAt);
    const after = at + draw.pick([draw.int(100, 5_000), draw.int(5_000, 150_000)]);
    switch (draw.pick(["kill", "stop", "sleep", "offline", "clock", "copy"] as const)) {
      case "kill":
        sheet.push(
          { at, draft: { do: "kill", laptop: name } },
          { at: after, draft: { do: "start", laptop: name } },
        );
        break;
      case "stop":
        sheet.push({ at, draft: { do: "stop", laptop: name } });
        if (draw.chance(0.3)) sheet.push({ at: at + 5_000, draft: { do: "stop", laptop: name } });
        sheet.push({ at: after, draft: { do: "start", laptop: name } });
        break;
      case "sleep":
        sheet.push(
          { at, draft: { do: "sleep", laptop: name } },
          { at: after, draft: { do: "wake", laptop: name } },
        );
        break;
      case "offline":
        sheet.push({ at, draft: { do: "go offline", laptop: name } });
        sheet.push({ at: after, draft: { do: "go online", laptop: name } });
        break;
      case "clock":
        sheet.push({ at, draft: { do: "jump clock", laptop: name, by: draw.int(-86_400_000, 86_400_000) } });
        break;
      case "copy":
        if (draw.chance(0.5))
          sheet.push({ at, draft: { do: "copy state", laptop: name, to: `${name}-copy${sheet.length}` } });
        break;
    }
  }
}
