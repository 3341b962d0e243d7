import { Worker } from "node:worker_threads";
import type { Mutation } from "./core/loader.ts";
import type { Done, Task } from "./thread.ts";

/** Threads that simulate. A thread whose product cannot be loaded makes the pool fail. */
export class Pool {
  readonly #idle: Worker[] = [];
  readonly #all: Worker[] = [];
  readonly #waiting: ((worker: Worker) => void)[] = [];

  private constructor(workers: Worker[]) {
    this.#all = workers;
    this.#idle = [...workers];
  }

  static async open(threads: number, mutations: readonly Mutation[] = []): Promise<Pool> {
    const workers = Array.from({ length: threads }, () => begin(mutations));
    return new Pool(await Promise.all(workers));
  }

  /** One task, in whichever thread is free first. Rejects if the simulation itself throws. */
  async run(task: Task): Promise<Exclude<Done, { failed: string }>> {
    const worker = this.#idle.pop() ?? (await new Promise<Worker>((resolve) => this.#waiting.push(resolve)));
    const done = await ask(worker, task);
    const next = this.#waiting.shift();
    if (next) next(worker);
    else this.#idle.push(worker);
    if ("failed" in done) throw new Error(`seed ${task.seed}: ${done.failed}`);
    return done;
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((worker) => worker.terminate()));
  }
}

function begin(mutations: readonly Mutation[]): Promise<Worker> {
  const worker = new Worker(new URL("./thread.ts", import.meta.url), {
    workerData: { mutations },
    execArgv: [],
  });
  return new Promise((resolve, reject) => {
    worker.once("message", () => {
      worker.off("error", reject);
      resolve(worker);
    });
    worker.once("error", reject);
  });
}

function ask(worker: Worker, task: Task): Promise<Done> {
  return new Promise((resolve, reject) => {
    const finish = (done: Done) => {
      worker.off("error", reject);
      resolve(done);
    };
    worker.once("message", finish);
    worker.once("error", reject);
    worker.postMessage(task);
  });
}
