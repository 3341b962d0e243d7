import fc from "fast-check";
import { expect, it } from "vitest";
import {
  commandId,
  newCommandId,
  newId,
  newProjectId,
  newUuid,
  projectOfCommand,
  uuid,
} from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";

it("a command's id is a UUID of version 8 that leads to its project", () => {
  for (let i = 0; i < 500; i++) {
    const project = newProjectId(systemRandom);
    const id = newCommandId(project, systemRandom);
    expect(commandId.safeParse(id).success).toBe(true);
    expect(projectOfCommand(id)).toBe(project);
  }
});

it("two commands of one project differ in 74 random bits", () => {
  const project = newProjectId(systemRandom);
  const ids = new Set(Array.from({ length: 2_000 }, () => newCommandId(project, systemRandom)));
  expect(ids.size).toBe(2_000);
});

it("what is no command's id leads nowhere, and nothing throws", () => {
  const odd = [
    "",
    "__proto__",
    "constructor",
    newUuid(systemRandom),
    newId("gs", systemRandom),
    "A".repeat(100_000),
  ];
  for (const text of odd) expect(projectOfCommand(text)).toBeUndefined();
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(projectOfCommand(text)).toBeUndefined();
    }),
  );
});

it("an upper-case id is another text, not the same command", () => {
  const id = newCommandId("prj_abcdefabcdef", systemRandom);
  expect(projectOfCommand(id.toUpperCase())).toBeUndefined();
});

it("a UUID of version 4 comes from the injected source", () => {
  const zeros = { bytes: (n: number) => new Uint8Array(n) };
  expect(newUuid(zeros)).toBe("00000000-0000-4000-8000-000000000000");
  expect(uuid.safeParse(newUuid(systemRandom)).success).toBe(true);
});
