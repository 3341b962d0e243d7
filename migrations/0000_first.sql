CREATE TABLE `accounts` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `agent_projects` (
	`agent_id` text NOT NULL,
	`project_id` text NOT NULL,
	`connected_at` integer NOT NULL,
	PRIMARY KEY(`agent_id`, `project_id`),
	FOREIGN KEY (`agent_id`) REFERENCES `agents`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `agent_projects_by_project` ON `agent_projects` (`project_id`);--> statement-breakpoint
CREATE TABLE `agents` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`client_id` text NOT NULL,
	`name` text NOT NULL,
	`scopes` text NOT NULL,
	`redirect_host` text NOT NULL,
	`created_at` integer NOT NULL,
	`last_used_at` integer,
	`revoked_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `agents_by_client` ON `agents` (`account_id`,`client_id`);--> statement-breakpoint
CREATE TABLE `devices` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`platform` text NOT NULL,
	`client_version` text NOT NULL,
	`public_jwk` text NOT NULL,
	`thumbprint` text NOT NULL,
	`created_at` integer NOT NULL,
	`last_seen_at` integer,
	`removed_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `devices_by_thumbprint` ON `devices` (`thumbprint`);--> statement-breakpoint
CREATE INDEX `devices_by_account` ON `devices` (`account_id`);--> statement-breakpoint
CREATE TABLE `graph_sessions` (
	`project_id` text NOT NULL,
	`graph_session_id` text NOT NULL,
	`device_id` text NOT NULL,
	`name` text NOT NULL,
	`description` text NOT NULL,
	`slug` text NOT NULL,
	`version` text NOT NULL,
	`status` text NOT NULL,
	`arguments_schema` text,
	`first_shared_at` integer NOT NULL,
	`unshared_at` integer,
	PRIMARY KEY(`project_id`, `graph_session_id`),
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`device_id`) REFERENCES `devices`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `graph_sessions_by_session` ON `graph_sessions` (`graph_session_id`);--> statement-breakpoint
CREATE INDEX `graph_sessions_by_device` ON `graph_sessions` (`device_id`);--> statement-breakpoint
CREATE TABLE `oauth_store` (
	`key` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL,
	`metadata` text,
	`expires_at` integer
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `oauth_store_by_expiry` ON `oauth_store` (`expires_at`);--> statement-breakpoint
CREATE TABLE `one_time_codes` (
	`code_hash` text PRIMARY KEY NOT NULL,
	`purpose` text NOT NULL,
	`account_id` text NOT NULL,
	`expires_at` integer NOT NULL,
	`used_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `one_time_codes_by_expiry` ON `one_time_codes` (`expires_at`);--> statement-breakpoint
CREATE INDEX `one_time_codes_by_account` ON `one_time_codes` (`account_id`);--> statement-breakpoint
CREATE TABLE `projects` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`name` text NOT NULL,
	`settings` text NOT NULL,
	`access_version` integer DEFAULT 1 NOT NULL,
	`access_applied` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL,
	`disabled_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `projects_by_account` ON `projects` (`account_id`,`created_at`);--> statement-breakpoint
CREATE INDEX `projects_behind` ON `projects` (`id`) WHERE access_applied < access_version;--> statement-breakpoint
CREATE TABLE `refresh_answers` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`grant_id` text NOT NULL,
	`client_id` text NOT NULL,
	`sealed_answer` text,
	`repeats` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `refresh_answers_by_age` ON `refresh_answers` (`created_at`);--> statement-breakpoint
CREATE INDEX `refresh_answers_by_client` ON `refresh_answers` (`account_id`,`client_id`);--> statement-breakpoint
CREATE TABLE `used_assertions` (
	`device_id` text NOT NULL,
	`jti` text NOT NULL,
	`expires_at` integer NOT NULL,
	PRIMARY KEY(`device_id`, `jti`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `used_assertions_by_expiry` ON `used_assertions` (`expires_at`);--> statement-breakpoint
CREATE TABLE `web_sessions` (
	`session_hash` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`created_at` integer NOT NULL,
	`authenticated_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `web_sessions_by_expiry` ON `web_sessions` (`expires_at`);--> statement-breakpoint
CREATE INDEX `web_sessions_by_account` ON `web_sessions` (`account_id`);
