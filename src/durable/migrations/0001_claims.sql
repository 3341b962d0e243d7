ALTER TABLE `key_claims` ADD `claimed_at` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `key_claims` ADD `adopted` integer DEFAULT false NOT NULL;--> statement-breakpoint
-- Claims stood for 180 days until here.
UPDATE `key_claims` SET `claimed_at` = `kept_until` - 15552000000;