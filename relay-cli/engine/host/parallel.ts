/** What `parallel` accepts. */
export interface ParallelOptions {
  /** Tasks under way at once: 1 to 32, 4 unless given. More is taken as 32. */
  maxConcurrency?: number;
  /** True: wait for all and tell how each ended. False: the first failure ends it, and no further task starts. */
  settle?: boolean;
}

const MAX_CONCURRENCY = 32;
const DEFAULT_CONCURRENCY = 4;

type Task<T> = (at: { index: number; signal: AbortSignal }) => Promise<T> | T;

/**
 * Runs tasks side by side and answers in their order. A task gets its index and a signal, which is given when
 * the run is stopped or another task's failure has ended the whole.
 */
export async function parallel<T>(
  tasks: readonly Task<T>[],
  options: ParallelOptions,
  signal: AbortSignal,
): Promise<T[] | PromiseSettledResult<T>[]> {
  if (!Array.isArray(tasks)) throw new TypeError("parallel needs an array of functions.");
  tasks.forEach((task, i) => {
    if (typeof task !== "function")
      throw new TypeError(`parallel: task ${i} is no function; write () => agent(…) in place of agent(…).`);
  });
  const wanted = options.maxConcurrency ?? DEFAULT_CONCURRENCY;
  if (!Number.isInteger(wanted) || wanted < 1)
    throw new RangeError("parallel: maxConcurrency must be a whole number from 1.");
  const failure = new AbortController();
  const taskSignal = AbortSignal.any([signal, failure.signal]);
  const results: PromiseSettledResult<T>[] = new Array(tasks.length);
  let next = 0;

  const worker = async (): Promise<void> => {
    while (next < tasks.length && !taskSignal.aborted) {
      const index = next++;
      const task = tasks[index] as Task<T>;
      try {
        results[index] = { status: "fulfilled", value: await task({ index, signal: taskSignal }) };
      } catch (reason) {
        if (options.settle !== true) {
          failure.abort(reason);
          throw reason;
        }
        results[index] = { status: "rejected", reason };
      }
    }
  };
  const workers = Array.from({ length: Math.min(wanted, MAX_CONCURRENCY, tasks.length) }, worker);
  await Promise.all(workers);
  signal.throwIfAborted();
  if (options.settle === true) return results;
  return results.map((r) => (r as PromiseFulfilledResult<T>).value);
}
