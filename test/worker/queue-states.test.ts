import { expect, it } from "vitest";
import { newProject, request, uuid } from "./queue-support.ts";

it("runs a command from its ticket to its result", async () => {
  const p = await newProject();
  const asked = request(p, { arguments_json: '{"folder":"src"}' });
  const ticket = await p.queue.enqueue(asked);
  expect(ticket).toMatchObject({ ok: true, created: true, run: { status: "queued", queue_position: 1 } });
  const pass = await p.queue.sync({ device_id: p.device_id, sessions_digest: "", token_issued_at: 1 });
  expect(pass).toMatchObject({
    ok: true,
    digest_matches: true,
    commands: [{ command_id: asked.command_id, agent_name: "Claude" }],
  });
  const mine = { device_id: p.device_id, command_id: asked.command_id, attempt_id: uuid() };
  expect(await p.queue.start(mine)).toEqual({ ok: true, value: { go: true, lease_seconds: 90 } });
  const waiting = p.queue.getRun({ agent_id: p.agent_id, command_id: asked.command_id, wait_ms: 20_000 });
  expect(await p.queue.control(mine)).toMatchObject({
    ok: true,
    value: { alive: true, cancel_requested: false },
  });
  const completion = { execution_id: uuid(), status: "completed" as const, result: { files: 3 } };
  expect(await p.queue.complete({ ...mine, completion })).toEqual({
    ok: true,
    value: { record: "stored", status: "completed" },
  });
  const run = await waiting;
  expect(run).toMatchObject({ status: "completed", outcome_json: JSON.stringify(completion) });
  expect(await p.queue.cancel({ agent_id: p.agent_id, command_id: asked.command_id })).toMatchObject({
    cancel: "already_finished",
  });
});
