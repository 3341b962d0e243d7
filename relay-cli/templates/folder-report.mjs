// Reports on a folder: files by type and size, the largest, TODO lines, what changed lately.
// It only reads, and only in the folders granted to it.

export const meta = {
  name: "Folder report",
  description:
    "Reports on a folder of the owner: files by type and size, the largest files, TODO lines, recent changes. Only reads.",
  version: "1.0.0",
  arguments: {
    type: "object",
    properties: {
      folder: {
        type: "string",
        description: "A granted folder, or one inside of it. Left out: the first granted folder.",
      },
      ignore: {
        type: "array",
        items: { type: "string" },
        description: "Further names of files and folders to leave out.",
      },
      top: { type: "integer", minimum: 1, maximum: 50, description: "Rows of each list. 10 unless given." },
    },
    additionalProperties: false,
  },
};

const IGNORED = [
  ".git",
  ".hg",
  ".svn",
  "node_modules",
  ".venv",
  "__pycache__",
  "dist",
  "build",
  "target",
  ".wrangler",
  ".cache",
];
const TEXT =
  /\.(c|cc|cpp|cs|css|go|h|hpp|html|java|js|jsx|kt|lua|md|mjs|cjs|mts|php|pl|py|rb|rs|scala|sh|sql|swift|toml|ts|tsx|txt|vue|ya?ml|zig)$/i;
const TODO = /(?:\/\/|#|\*|--|;)\s*(?:TODO|FIXME|HACK|XXX)\b|\b(?:TODO|FIXME)[:(]/;
// Rows of each list in the summary, which is for reading.
const SHOWN = 5;
const MAX_FILES_READ = 2_000;
const MAX_FILE_SIZE = 256_000;

export default async function ({ args, tool, parallel, log, progress }) {
  const top = args.top ?? 10;
  progress("Listing files");
  const list = await tool("list_folder", {
    path: args.folder ?? ".",
    recursive: true,
    ignore: [...IGNORED, ...(args.ignore ?? [])],
    max_entries: 50_000,
  });
  const files = list.entries.filter((entry) => entry.type === "file");
  log(`${files.length} files in ${list.path}`);

  const readable = files.filter((f) => TEXT.test(f.path) && f.size <= MAX_FILE_SIZE).slice(0, MAX_FILES_READ);
  let read = 0;
  const todoLists = await parallel(
    readable.map((file) => async () => {
      const found = await todosIn(file.path);
      if (++read % 100 === 0)
        progress({ message: "Looking for TODO lines", percent: (100 * read) / readable.length });
      return found;
    }),
    { maxConcurrency: 16 },
  );
  const todos = todoLists.flat();

  async function todosIn(path) {
    try {
      const { text } = await tool("read_file", { path: `${list.path}/${path}` });
      return text
        .split("\n")
        .map((line, i) => ({ file: path, line: i + 1, text: line.trim().slice(0, 160) }))
        .filter(({ text }) => TODO.test(text));
    } catch (error) {
      log(`${path} was left out: ${error.message}`);
      return [];
    }
  }

  const bySize = files.toSorted((a, b) => b.size - a.size);
  const byTime = files.toSorted((a, b) => (a.modified < b.modified ? 1 : -1));
  const report = {
    folder: list.path,
    files: files.length,
    bytes: sum(files),
    complete: !list.truncated,
    types: types(files).slice(0, top),
    largest: bySize.slice(0, top).map(({ path, size }) => ({ file: path, bytes: size })),
    todo_count: todos.length,
    todos: todos.slice(0, top),
    recent: byTime.slice(0, top).map(({ path, modified }) => ({ file: path, modified })),
  };
  return { summary: summarize(report), ...report };
}

const sum = (files) => files.reduce((total, file) => total + file.size, 0);

function types(files) {
  const groups = Map.groupBy(
    files,
    ({ path }) => path.match(/[^/.]\.([^./]+)$/)?.[1]?.toLowerCase() ?? "(none)",
  );
  return [...groups]
    .map(([type, group]) => ({ type, files: group.length, bytes: sum(group) }))
    .sort((a, b) => b.bytes - a.bytes);
}

function size(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  const power = Math.min(3, bytes < 1 ? 0 : Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

function summarize(report) {
  const rows = (list, row) => list.slice(0, SHOWN).map((item) => `  ${row(item)}`);
  return [
    `${report.folder}: ${report.files} files, ${size(report.bytes)}${report.complete ? "" : " (the first 50,000 entries only)"}`,
    "By type:",
    ...rows(report.types, (t) => `${size(t.bytes).padStart(8)}  ${t.type} (${t.files})`),
    "Largest:",
    ...rows(report.largest, (f) => `${size(f.bytes).padStart(8)}  ${f.file}`),
    `TODO lines: ${report.todo_count}`,
    ...rows(report.todos, (t) => `${t.file}:${t.line}  ${t.text}`),
    "Changed last:",
    ...rows(report.recent, (f) => `${f.modified.slice(0, 16).replace("T", " ")}  ${f.file}`),
  ].join("\n");
}
