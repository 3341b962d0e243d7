import type { ApprovalBroker, ApprovalRequest } from "../engine/index.ts";
import type { ApprovalAnswer, ApprovalStore, Question } from "../store/contract.ts";
import { visible } from "./safe-text.ts";
import type { Terminal } from "./terminal.ts";

/** How often the store is looked into for an answer from another terminal. */
const LOOK_MILLISECONDS = 250;
/** How often the asker says that it is there, and how long that is believed: three times as long. */
const ALIVE_MILLISECONDS = 2_000;
/** What is shown of a request at most; the whole is in `graph-relay approvals list --json`. */
const SHOWN_CHARACTERS = 20_000;

/** Answers as they are typed, by their first letter or in full. */
const TYPED: Readonly<Record<string, ApprovalAnswer>> = {
  o: "once",
  once: "once",
  r: "run",
  run: "run",
  a: "always",
  always: "always",
  n: "refused",
  no: "refused",
};
/** The answer that was typed, or undefined if it is none. */
export const typedAnswer = (text: string): ApprovalAnswer | undefined => {
  const word = text.trim().toLowerCase();
  return Object.hasOwn(TYPED, word) ? TYPED[word] : undefined;
};

/** The part of a terminal that questions need. */
type AskingTerminal = Pick<Terminal, "interactive" | "say" | "ask">;

export interface BrokerPorts {
  approvals: ApprovalStore;
  now(): number;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  terminal: AskingTerminal;
}

/**
 * Puts each question into the store, where any other terminal sees and answers it, and onto this terminal, if somebody
 * is there: one at a time, whichever run it comes from. The first answer counts, through one guarded write.
 */
export function createApprovalBroker({ approvals, now, sleep, terminal }: BrokerPorts): ApprovalBroker {
  let terminalFree: Promise<void> = Promise.resolve();
  return {
    async ask(request, signal) {
      const asked_at = now();
      const { timeout_seconds, ...question } = request;
      const n = approvals.ask({ ...question, asked_at, expires_at: asked_at + timeout_seconds * 1000 });
      let aliveUntil = 0;
      const stayAlive = (): void => {
        if (aliveUntil - now() > 2 * ALIVE_MILLISECONDS) return;
        aliveUntil = now() + 3 * ALIVE_MILLISECONDS;
        approvals.keepAlive(n, aliveUntil);
      };
      stayAlive();
      const over = new AbortController();
      const waiting = AbortSignal.any([signal, over.signal]);
      const typed = new AbortController();
      if (terminal.interactive) {
        const here = { ...question, n };
        terminalFree = terminalFree
          .then(() => askHere(terminal, approvals, here, now, waiting))
          .then(() => typed.abort());
      } else {
        showQuestion(terminal, n, request);
        terminal.say(`Answer with \`graph-relay approvals answer ${n} once|run|always|no\`.`);
      }
      try {
        for (;;) {
          const found = approvals.answerTo(n);
          if (found) return found;
          if (signal.aborted) return { answer: "refused", by: "no answer" };
          stayAlive();
          await sleep(
            LOOK_MILLISECONDS,
            typed.signal.aborted ? waiting : AbortSignal.any([waiting, typed.signal]),
          );
        }
      } finally {
        over.abort();
        approvals.withdraw(n);
      }
    },
  };
}

/** Shows what is asked for, exactly. */
export function showQuestion(
  terminal: Pick<Terminal, "say">,
  n: number,
  { graph, tool, request }: Pick<ApprovalRequest, "graph" | "tool" | "request">,
): void {
  const text = visible(request);
  const cut = text.length > SHOWN_CHARACTERS;
  terminal.say(`\n${graph} asks to use ${tool} (question ${n}):`);
  for (const line of text.slice(0, SHOWN_CHARACTERS).split("\n")) terminal.say(`  | ${line}`);
  if (cut)
    terminal.say(
      `  (${text.length - SHOWN_CHARACTERS} more characters; all of it: graph-relay approvals list --json)`,
    );
}

/** Asks for an answer until one is typed. Rejects as `Terminal.ask` does. */
export async function askAnswer(
  terminal: Pick<Terminal, "ask">,
  signal?: AbortSignal,
): Promise<ApprovalAnswer> {
  for (;;) {
    const answer = typedAnswer(
      await terminal.ask("Allow it? once, for this run, always, no [o/r/a/n]: ", signal),
    );
    if (answer !== undefined) return answer;
  }
}

/** Asks at this terminal, until there is an answer here or elsewhere. Never rejects. */
async function askHere(
  terminal: AskingTerminal,
  approvals: ApprovalStore,
  question: Pick<Question, "n" | "graph" | "tool" | "request">,
  now: () => number,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) return;
  showQuestion(terminal, question.n, question);
  let answer: ApprovalAnswer;
  try {
    answer = await askAnswer(terminal, signal);
  } catch {
    return; // answered elsewhere, out of time, or the terminal is gone
  }
  if (!approvals.answer(question.n, answer, `owner, ${answer}`, now()))
    terminal.say("It was answered elsewhere already, or its time was up.");
}
