/** Who is told what a call brought about, once it is committed. Must not throw. */
export interface QueueHost {
  /** The run ended, waits for its owner, or went out of its agent's sight: whoever waits for it looks again. */
  changed(command_id: string): void;
  /** There is something for this device: a new command, or a stop. */
  wake(device_id: string): void;
  /** Time changes something at this moment, in milliseconds since the epoch; an alarm must not come later. */
  due(at: number): void;
}

/** What a call brings about outside its tables, kept until the tables are committed. */
export class Effects implements QueueHost {
  readonly #changed = new Set<string>();
  readonly #wake = new Set<string>();
  #due = Number.POSITIVE_INFINITY;

  changed(command_id: string): void {
    this.#changed.add(command_id);
  }
  wake(device_id: string): void {
    this.#wake.add(device_id);
  }
  due(at: number): void {
    this.#due = Math.min(this.#due, at);
  }

  tell(host: QueueHost): void {
    if (this.#due !== Number.POSITIVE_INFINITY) host.due(this.#due);
    for (const id of this.#changed) host.changed(id);
    for (const id of this.#wake) host.wake(id);
  }
}
