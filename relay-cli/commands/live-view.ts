import type { Engine, EngineEvent, RunRequest } from "../engine/index.ts";
import { visible } from "./safe-text.ts";
import type { Terminal } from "./terminal.ts";
import { cutToWidth } from "./width.ts";

/** How often what runs is painted anew, for its clock. */
const REPAINT_MILLISECONDS = 1_000;

/** A run as the view shows it. */
export interface ShownRun {
  graph: string;
  startedAt: number;
  /** Models of the agents under way, by agent number. */
  agents: Map<number, string>;
  tokens: number;
  message: string;
  percent: number | undefined;
}

/** The lines for what runs, each at most `columns` wide. */
export function renderRuns(runs: readonly ShownRun[], now: number, columns: number): string[] {
  return runs.map((run) => {
    const models = [...new Set(run.agents.values())].join(", ");
    const parts = [
      `${run.graph} ${clock(now - run.startedAt)}`,
      run.percent === undefined ? "" : `${Math.round(run.percent)} %`,
      run.agents.size === 0 ? "" : `${run.agents.size} agent${run.agents.size === 1 ? "" : "s"} (${models})`,
      run.tokens === 0 ? "" : `${run.tokens.toLocaleString("en")} tokens`,
      run.message,
    ];
    return cutToWidth(
      visible(parts.filter((part) => part !== "").join(" · ")).replaceAll("\n", " "),
      columns,
    );
  });
}

function clock(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (n: number): string => String(n).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** Shows what an engine runs: a few lines that change at the foot of a terminal, plain lines elsewhere. */
export interface LiveView {
  /** The engine, watched. */
  readonly engine: Engine;
  stop(): void;
}

export function watchEngine(engine: Engine, terminal: Terminal, now: () => number): LiveView {
  const runs = new Map<string, ShownRun>();
  let timer: NodeJS.Timeout | undefined;

  const paint = (): void => {
    if (terminal.paints) terminal.footer(renderRuns([...runs.values()], now(), terminal.columns() - 1));
  };
  const keepPainting = (): void => {
    if (runs.size > 0 && timer === undefined && terminal.paints) {
      timer = setInterval(paint, REPAINT_MILLISECONDS);
      timer.unref();
    } else if (runs.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
    paint();
  };
  const take = (run: ShownRun, event: EngineEvent): void => {
    if (event.type === "agent_started") run.agents.set(event.agent, event.model);
    else if (event.type === "agent_finished") {
      const model = run.agents.get(event.agent) ?? "";
      run.agents.delete(event.agent);
      const tokens = event.input_tokens + event.output_tokens;
      run.tokens += tokens;
      const end = event.error === undefined ? "finished" : `failed: ${event.error}`;
      const seconds = (event.milliseconds / 1000).toFixed(1);
      if (!terminal.paints)
        terminal.say(
          visible(
            `${event.graph ?? run.graph}: agent ${event.agent} (${model}) ${end}, ${tokens} tokens, ${seconds} s`,
          ).replaceAll("\n", " "),
        );
    } else if (event.type === "progress") {
      const { state, message, percent } = event.progress;
      run.message =
        state === "awaiting_approval"
          ? `waits for your approval: ${message ?? ""}`
          : (message ?? run.message);
      if (state === "running" && message === undefined && percent === undefined) run.message = "";
      run.percent = percent ?? run.percent;
    } else return;
    paint();
  };

  return {
    engine: {
      ...engine,
      async run(request: RunRequest) {
        const shown: ShownRun = {
          graph: request.graph.slug,
          startedAt: now(),
          agents: new Map(),
          tokens: 0,
          message: "",
          percent: undefined,
        };
        runs.set(request.execution_id, shown);
        keepPainting();
        try {
          return await engine.run({
            ...request,
            onEvent(event) {
              request.onEvent(event);
              take(shown, event);
            },
          });
        } finally {
          runs.delete(request.execution_id);
          keepPainting();
        }
      },
    },
    stop() {
      runs.clear();
      keepPainting();
    },
  };
}
