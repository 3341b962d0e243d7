CREATE TABLE `agents` (
	`agent_id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `commands` (
	`seq` integer PRIMARY KEY NOT NULL,
	`command_id` text NOT NULL,
	`agent_id` text NOT NULL,
	`idempotency_key` text NOT NULL,
	`graph_session_id` text NOT NULL,
	`device_id` text NOT NULL,
	`slug` text NOT NULL,
	`state` text NOT NULL,
	`attempt_id` text,
	`queued_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`started_at` integer,
	`lease_until` integer,
	`finished_at` integer,
	`kept_until` integer,
	`cancel_requested_at` integer,
	`progress_json` text,
	`reason` text,
	`late` integer DEFAULT false NOT NULL,
	`finished_before_stop` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `commands_by_id` ON `commands` (`command_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `commands_by_key` ON `commands` (`agent_id`,`idempotency_key`);--> statement-breakpoint
CREATE INDEX `commands_queued` ON `commands` (`device_id`,`seq`,`agent_id`) WHERE state = 'queued';--> statement-breakpoint
CREATE INDEX `commands_expiring` ON `commands` (`expires_at`) WHERE state = 'queued';--> statement-breakpoint
CREATE INDEX `commands_running` ON `commands` (`agent_id`) WHERE state = 'running';--> statement-breakpoint
CREATE INDEX `commands_kept` ON `commands` (`kept_until`) WHERE kept_until is not null;--> statement-breakpoint
CREATE TABLE `devices` (
	`device_id` text PRIMARY KEY NOT NULL,
	`sessions_digest` text DEFAULT '' NOT NULL,
	`token_issued_at` integer DEFAULT 0 NOT NULL,
	`last_seen_at` integer
);
--> statement-breakpoint
CREATE TABLE `kept_out` (
	`seq` integer PRIMARY KEY NOT NULL,
	`times` integer NOT NULL,
	`last_at` integer NOT NULL,
	`attempt_id` text,
	`execution_id` text NOT NULL,
	`status` text NOT NULL,
	FOREIGN KEY (`seq`) REFERENCES `commands`(`seq`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `key_claims` (
	`agent_id` text NOT NULL,
	`idempotency_key` text NOT NULL,
	`graph_session_id` text NOT NULL,
	`command_id` text NOT NULL,
	`kept_until` integer NOT NULL,
	PRIMARY KEY(`agent_id`, `idempotency_key`)
);
--> statement-breakpoint
CREATE INDEX `key_claims_kept` ON `key_claims` (`kept_until`);--> statement-breakpoint
CREATE TABLE `meta` (
	`id` integer PRIMARY KEY NOT NULL,
	`project_id` text NOT NULL,
	`access_version` integer NOT NULL,
	`settings` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `payloads` (
	`seq` integer PRIMARY KEY NOT NULL,
	`arguments_json` text NOT NULL,
	`outcome_json` text,
	FOREIGN KEY (`seq`) REFERENCES `commands`(`seq`) ON UPDATE no action ON DELETE no action
);
