/** What must outlast a job, with the indexes its questions need and no more. */
export const TABLES = `
create table if not exists runs (
  id uuid primary key default gen_random_uuid(),
  agent text not null,
  idempotency_key text not null,
  laptop text not null,
  state text not null default 'queued',
  arguments text not null,
  attempt uuid,
  lease_until timestamptz,
  progress text,
  cancel_requested_at timestamptz,
  result text,
  queued_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  unique (agent, idempotency_key)
)`;

/** The run and its job in one statement, hence in one transaction; no row if the key names a run already. */
export const ENQUEUE = `
with made as (
  insert into runs (agent, idempotency_key, laptop, arguments) values ($1, $2, $3, $4)
  on conflict (agent, idempotency_key) do nothing
  returning id
)
select made.id, job.id as job
from made, lateral graphile_worker.add_job('run', json_build_object('id', made.id), max_attempts := 1) job`;

export const FIND = `select id from runs where agent = $1 and idempotency_key = $2`;

export const START = `
update runs set state = 'running', attempt = $2, started_at = now(), lease_until = now() + make_interval(secs => $3)
where id = $1 and state = 'queued'
returning arguments`;

export const HEARTBEAT = `
update runs set lease_until = now() + make_interval(secs => $3), progress = $4
where id = $1 and attempt = $2 and state = 'running'
returning cancel_requested_at`;

export const COMPLETE = `
update runs set state = 'completed', result = $3, finished_at = now(), lease_until = null
where id = $1 and attempt = $2 and state = 'running'`;

export const READ = `select state, result, progress, cancel_requested_at from runs where id = $1 and agent = $2`;

export const FILL = `
insert into runs (id, agent, idempotency_key, laptop, state, arguments, result, queued_at, started_at, finished_at)
select id, $5, key, 'laptop-0', 'completed', arguments, result, now(), now(), now()
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) as stored(id, key, arguments, result)`;
