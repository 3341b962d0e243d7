/**
 * What holds in every history, whatever went wrong in it: each with its name and one sentence, as
 * docs/guarantees.md has them.
 */
export const GUARANTEES = {
  "started at most once": "A Graph's program is started at most once for a command, on whatever laptop.",
  "no start after a no":
    "Nothing starts once the laptop knows that the owner withdrew it, that its agent cancelled it, or that it expired.",
  "queue order in a session": "The runs of one session start in the order in which they were asked for.",
  "one run of a session at a time":
    "A relay runs no more Graphs side by side than it was told to, and never two of one session.",
  "a state moves by the table": "A command's state changes only as the table of states and events allows.",
  "an outcome is written once": "The outcome of a command, once stored, is never replaced.",
  "a finished result arrives":
    "A result that the laptop has recorded is what the server holds, once the network is whole for long enough.",
  "every command ends":
    "Every command is in a terminal state within its expiry, its lease and its Graph's own time.",
  "one key, one command":
    "All calls of one agent with one idempotency key, one session and the same arguments get the same command.",
  "a key keeps its meaning":
    "A key that named a run is never quietly used for another request, and never refused for the same one.",
  "answers are for their agent":
    "No answer to anyone shows what belongs to another agent, owner or device, or that it exists.",
  "an answer is true":
    "A result that an agent is shown is the one its own Graph returned, whole or marked as cut.",
  "a cancel keeps its word":
    "A run that was answered `cancelled` never starts; one that was answered `cancelling` is told to stop, and ends as cancelled or lost.",
  "a live run is not given up":
    "A run whose laptop is there, with the network whole, is never taken for lost.",
  "access ends at once":
    "An agent that the object has struck off its list is answered nothing more, and the object's lists become those of D1.",
  "one pass at a time": "A relay never has two passes over one project under way.",
  "the list is true":
    "Once the network is whole for long enough, the sessions that agents are shown are those that the laptop shares.",
  "nothing grows without bound":
    "Once all is done and kept no longer, no table of the server or the laptop holds anything of it, and a relay's log stays short.",
  "the world goes on": "No part of the product throws where nothing can catch it, or stops for good.",
} as const;
export type Guarantee = keyof typeof GUARANTEES;

export interface Violation {
  guarantee: Guarantee;
  detail: string;
}

/** Notes that a guarantee was broken. */
export type Break = (guarantee: Guarantee, detail: string) => void;
