/** What the owner said about a kind of tool use for one Graph. */
export type ApprovalSetting = "allow" | "ask" | "deny";

/** Something a Graph or its agent wants to do, put to the owner. */
export interface ApprovalRequest {
  execution_id: string;
  run_id: string;
  graph: string;
  tool: string;
  /** Exactly what will be done: the command line, the path and the new text, the URL and the body. */
  request: string;
  /** How long an answer is waited for; none by then is a refusal. */
  timeout_seconds: number;
}

/** `by` says who or what decided, for the history: "owner once", "owner for this run", "no answer in time". */
export interface ApprovalDecision {
  answer: "once" | "run" | "always" | "refused";
  by: string;
}

/** Puts a request to the owner and waits for the answer. It may never throw; `signal` ends the waiting. */
export interface ApprovalBroker {
  ask(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision>;
}
