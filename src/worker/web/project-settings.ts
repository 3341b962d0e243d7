import { html } from "hono/html";
import * as z from "zod";
import { type ProjectSettings, projectSettings } from "../../protocol/limits.ts";
import { text } from "./forms.ts";

// The form of a project's settings. Ranges and defaults are those of the protocol.

const UNITS = { seconds: 1, minutes: 60, hours: 3_600, days: 86_400 } as const;
type Unit = keyof typeof UNITS;

interface Field {
  name: keyof ProjectSettings;
  label: string;
  hint: string;
  kind: "duration" | "count";
}

const FIELDS: readonly Field[] = [
  {
    name: "queue_expiry_seconds",
    label: "A run that waits for the laptop expires after",
    hint: "Holds for what is asked for from now on.",
    kind: "duration",
  },
  {
    name: "lease_seconds",
    label: "A running Graph counts as lost without a sign from the laptop for",
    hint: "A result that comes later is taken all the same.",
    kind: "duration",
  },
  {
    name: "retention_seconds",
    label: "A run’s record and result are kept for",
    hint: "As long, its idempotency key names it.",
    kind: "duration",
  },
  {
    name: "max_queued_per_project",
    label: "Runs that may wait at once, of all agents",
    hint: "Further ones are refused.",
    kind: "count",
  },
  {
    name: "max_queued_per_agent",
    label: "Runs that may wait at once, of one agent",
    hint: "",
    kind: "count",
  },
];

interface Range {
  minimum: number;
  maximum: number;
  default: number;
}
const RANGES = z.toJSONSchema(projectSettings).properties as unknown as Record<keyof ProjectSettings, Range>;

/** The largest unit that a duration is a whole number of. */
const unitOf = (seconds: number): Unit =>
  (["days", "hours", "minutes"] as const).find((unit) => seconds % UNITS[unit] === 0) ?? "seconds";
const duration = (seconds: number): string => {
  const unit = unitOf(seconds);
  const count = seconds / UNITS[unit];
  return `${count} ${count === 1 ? unit.slice(0, -1) : unit}`;
};
const shown = ({ kind }: Field, value: number): string =>
  kind === "duration" ? duration(value) : String(value);
const rangeText = (field: Field): string => {
  const { minimum, maximum } = RANGES[field.name];
  return `${shown(field, minimum)} to ${shown(field, maximum)}`;
};

/** One field with its label, range and default. */
const fieldHtml = (field: Field, settings: ProjectSettings) => {
  const { name, label, hint, kind } = field;
  const value = settings[name];
  const unit = unitOf(value);
  const described = html`<p class="hint" id="${name}-hint">${rangeText(field)}; ${shown(field, RANGES[name].default)} unless you change it. ${hint}</p>`;
  if (kind === "count")
    return html`<label for="${name}">${label}</label>
<input class="amount" type="number" inputmode="numeric" id="${name}" name="${name}" value="${value}" required min="${RANGES[name].minimum}" max="${RANGES[name].maximum}" step="1" aria-describedby="${name}-hint">${described}`;
  return html`<label for="${name}">${label}</label>
<div class="amount"><input type="number" inputmode="numeric" id="${name}" name="${name}" value="${value / UNITS[unit]}" required min="1" step="1" aria-describedby="${name}-hint">
<select name="${name}_unit" aria-label="Unit">${Object.keys(UNITS).map((one) => html`<option${one === unit ? html` selected` : ""}>${one}</option>`)}</select></div>${described}`;
};

/** The fields, filled with the settings as they are. */
export const settingsFields = (settings: ProjectSettings) =>
  FIELDS.map((field) => fieldHtml(field, settings));

/** The settings in a form, or what the person has to change. */
export function readSettings(form: FormData): ProjectSettings | { wrong: string } {
  const value = (field: Field): number => {
    const amount = text(form, field.name).trim();
    if (!/^\d{1,9}$/.test(amount)) return Number.NaN;
    if (field.kind === "count") return Number(amount);
    const unit = text(form, `${field.name}_unit`);
    return unit in UNITS ? Number(amount) * UNITS[unit as Unit] : Number.NaN;
  };
  const read = projectSettings.safeParse(Object.fromEntries(FIELDS.map((f) => [f.name, value(f)])));
  if (read.success) return read.data;
  const field = FIELDS.find(({ name }) => name === read.error.issues[0]?.path[0]);
  return { wrong: field ? `${field.label}: give ${rangeText(field)}.` : "The settings are not complete." };
}
