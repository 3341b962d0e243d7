ALTER TABLE `key_claims` ADD `claimed_at` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `key_claims` ADD `adopted` integer DEFAULT false NOT NULL;