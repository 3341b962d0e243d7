import { describe, expect, it } from "vitest";
import type { ProjectQueueApi } from "../../src/durable/contract.ts";
import { QueueUnavailable, retryingQueues } from "../../src/worker/queues.ts";

/** Objects that fail this often with these errors before they answer. */
function failing(...errors: object[]) {
  const opened: string[] = [];
  const waits: number[] = [];
  const queues = retryingQueues({
    open(project) {
      opened.push(project);
      const error = errors.shift();
      return {
        presence: async () => {
          if (error) throw Object.assign(new Error("inside the object: s3cret"), error);
          return {};
        },
      } as unknown as ProjectQueueApi;
    },
    random: { bytes: () => new Uint8Array([255]) },
    sleep: async (ms) => {
      waits.push(ms);
    },
  });
  const call = () => queues.call("prj_1", (queue) => queue.presence({ agent_id: "a" }));
  return { opened, waits, call };
}

describe("calls to a project's object", () => {
  it("are made once when they are answered", async () => {
    const { opened, call } = failing();
    expect(await call()).toEqual({});
    expect(opened).toEqual(["prj_1"]);
  });

  it("are repeated on a new stub after a failure on the way, each wait longer than the last", async () => {
    const { opened, waits, call } = failing({ retryable: true }, { retryable: true });
    expect(await call()).toEqual({});
    expect(opened).toHaveLength(3);
    expect(waits).toEqual([100, 400]);
  });

  it("are given up after the third failure", async () => {
    const { opened, call } = failing({ retryable: true }, { retryable: true }, { retryable: true });
    await expect(call()).rejects.toThrow(QueueUnavailable);
    expect(opened).toHaveLength(3);
  });

  it("are never repeated when the object is overloaded", async () => {
    const { opened, call } = failing({ overloaded: true, retryable: true });
    await expect(call()).rejects.toThrow(QueueUnavailable);
    expect(opened).toHaveLength(1);
  });

  it("are not repeated when the object itself failed: that error is the caller's to hide", async () => {
    const { opened, call } = failing({ remote: true });
    await expect(call()).rejects.toThrow("inside the object");
    expect(opened).toHaveLength(1);
  });
});
