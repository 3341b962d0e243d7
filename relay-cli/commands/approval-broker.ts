import { createInterface } from "node:readline/promises";
import type { ApprovalBroker, ApprovalDecision, ApprovalRequest } from "../engine/index.ts";
import type { ApprovalAnswer, ApprovalStore } from "../store/contract.ts";
import { visible } from "./safe-text.ts";

/** How often the store is looked into for an answer from another terminal. */
const LOOK_MILLISECONDS = 250;
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

/** Where questions are shown and, if somebody is there, answered. */
export interface QuestionTerminal {
  readonly interactive: boolean;
  say(line: string): void;
  /** One line that is typed; rejects when `signal` is given. */
  ask(question: string, signal: AbortSignal): Promise<string>;
}

export interface BrokerPorts {
  approvals: ApprovalStore;
  now(): number;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  terminal: QuestionTerminal;
}

/**
 * Puts each question into the store, where any other terminal sees and answers it, and onto this terminal, if somebody
 * is there. The first answer counts, through one guarded write.
 */
export function createApprovalBroker({ approvals, now, sleep, terminal }: BrokerPorts): ApprovalBroker {
  return {
    async ask(request, signal) {
      const asked_at = now();
      const { timeout_seconds, ...question } = request;
      const n = approvals.ask({ ...question, asked_at, expires_at: asked_at + timeout_seconds * 1000 });
      const over = new AbortController();
      const both = AbortSignal.any([signal, over.signal]);
      show(terminal, n, request);
      const here = terminal.interactive ? askHere(terminal, approvals, n, now, both) : undefined;
      try {
        for (;;) {
          const found = approvals.answerTo(n);
          if (found) return decision(found.answer, found.by);
          if (signal.aborted) return { answer: "refused", by: "no answer" };
          await sleep(LOOK_MILLISECONDS, AbortSignal.any([both, ...(here ? [here.answered] : [])]));
        }
      } finally {
        over.abort();
        approvals.withdraw(n);
        await here?.ended;
      }
    },
  };
}

const decision = (answer: ApprovalAnswer, by: string): ApprovalDecision => ({ answer, by });

function show(terminal: QuestionTerminal, n: number, { graph, tool, request }: ApprovalRequest): void {
  const text = visible(request);
  const cut = text.length > SHOWN_CHARACTERS;
  terminal.say(`\n${graph} asks to use ${tool} (question ${n}):`);
  for (const line of text.slice(0, SHOWN_CHARACTERS).split("\n")) terminal.say(`  | ${line}`);
  if (cut)
    terminal.say(
      `  (${text.length - SHOWN_CHARACTERS} more characters; all of it: graph-relay approvals list --json)`,
    );
  if (!terminal.interactive)
    terminal.say(`Answer with \`graph-relay approvals answer ${n} once|run|always|no\`.`);
}

/** Asks at this terminal until there is an answer, here or elsewhere. */
function askHere(
  terminal: QuestionTerminal,
  approvals: ApprovalStore,
  n: number,
  now: () => number,
  signal: AbortSignal,
): { answered: AbortSignal; ended: Promise<void> } {
  const answered = new AbortController();
  const loop = async (): Promise<void> => {
    while (!signal.aborted) {
      let typed: string;
      try {
        typed = await terminal.ask("Allow it? once, for this run, always, no [o/r/a/n]: ", signal);
      } catch {
        return; // answered elsewhere, out of time, or the terminal is gone
      }
      const answer = typedAnswer(typed);
      if (answer === undefined) continue;
      if (!approvals.answer(n, answer, `owner, ${answer}`, now()))
        terminal.say("It was answered elsewhere already, or its time was up.");
      answered.abort();
      return;
    }
  };
  return { answered: answered.signal, ended: loop() };
}

/** The process's own terminal: questions on stderr, answers from stdin. Ctrl-C stays what it was. */
export function systemQuestionTerminal(say: (line: string) => void): QuestionTerminal {
  const { stdin, stderr } = process;
  return {
    interactive: stdin.isTTY === true && stderr.isTTY === true,
    say,
    async ask(question, signal) {
      // Not as a terminal of readline's: the line discipline edits the line, and Ctrl-C stays a signal.
      const lines = createInterface({ input: stdin, output: stderr, terminal: false });
      const { promise: closed, reject } = Promise.withResolvers<never>();
      lines.once("close", () => reject(new Error("the terminal was closed")));
      try {
        return await Promise.race([lines.question(question, { signal }), closed]);
      } finally {
        closed.catch(() => {});
        lines.close();
      }
    },
  };
}
