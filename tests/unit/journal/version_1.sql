BEGIN TRANSACTION;
CREATE TABLE attempts (
	"key" VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	model TEXT NOT NULL, 
	purpose TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	run TEXT, 
	holder TEXT NOT NULL, 
	lease_token TEXT NOT NULL, 
	started_at VARCHAR(32) NOT NULL, 
	abandoned_at VARCHAR(32), 
	ended_at VARCHAR(32), 
	outcome TEXT, 
	reason TEXT, 
	http_status INTEGER, 
	request_id TEXT, 
	latency_ms INTEGER, 
	prompt_tokens BIGINT, 
	completion_tokens BIGINT, 
	reasoning_tokens BIGINT, 
	estimate_microdollars BIGINT, 
	cost_microdollars BIGINT, 
	cost_source TEXT, 
	price_list TEXT, 
	served_model TEXT, 
	system_fingerprint TEXT, 
	served_by TEXT, 
	CONSTRAINT attempts_key PRIMARY KEY ("key", number), 
	CONSTRAINT attempts_outcome CHECK (outcome IN ('ok', 'timeout', 'rate_limit', 'out_of_credit', 'authentication', 'refusal', 'truncation', 'malformed', 'provider_error', 'abandoned')), 
	CONSTRAINT attempts_cost_source CHECK (cost_source IN ('provider', 'price_list', 'unbilled')), 
	CONSTRAINT attempts_cost_with_its_source CHECK ((cost_microdollars IS NULL) = (cost_source IS NULL)), 
	CONSTRAINT attempts_outcome_at_the_end CHECK ((outcome IS NULL) = (ended_at IS NULL AND abandoned_at IS NULL)), 
	CONSTRAINT attempts_abandoned_without_an_end CHECK (outcome <> 'abandoned' OR ended_at IS NULL), 
	CONSTRAINT attempts_prompt_tokens_not_negative CHECK (prompt_tokens >= 0), 
	CONSTRAINT attempts_completion_tokens_not_negative CHECK (completion_tokens >= 0), 
	CONSTRAINT attempts_reasoning_tokens_not_negative CHECK (reasoning_tokens >= 0), 
	CONSTRAINT attempts_estimate_microdollars_not_negative CHECK (estimate_microdollars >= 0), 
	CONSTRAINT attempts_cost_microdollars_not_negative CHECK (cost_microdollars >= 0), 
	CONSTRAINT attempts_of FOREIGN KEY("key") REFERENCES calls ("key")
);
INSERT INTO "attempts" VALUES('1f8436ebc7b80e28da14cf8a2e179d55a4fa8d8caf260ae81874d58e4b1ff628',1,'acme/oracle-2','benchmark/forecasts','r2026',NULL,'one','800a0004b960cd35dcbedddfc00995ae','2026-03-01 00:05:00.000000+00:00',NULL,'2026-03-01 00:05:00.000000+00:00','ok',NULL,200,'req-1',900,100,20,5,NULL,120,'provider',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('0811204d11e19b1602199b31c540fd69d8c9076a78ebbf1411dfa78743d764f3',1,'arena','arena/decisions','2026-03-01/own/2026-03-01',NULL,'one','8ebef8a4b189eb0661a917b86123808f','2026-03-01 00:05:00.000000+00:00',NULL,'2026-03-01 00:05:00.000000+00:00','ok',NULL,200,'req-1',900,100,20,5,NULL,120,'provider',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('c320c516318082405204e4c08434f9ad0d898890199ecbe309227a99b25388a6',1,'arena','arena/universe','2026-03-01','week','one','f5d0ff75f56c3c0f9d30a7933b42731b','2026-03-01 00:05:00.000000+00:00',NULL,'2026-03-01 00:05:00.000000+00:00','ok',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,'unbilled',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('8b7b4a5869364d75ba6cd520c3c72e6eff0feb81d70cf5c08f0cdb5c3aae0d57',1,'arena','arena/cohort','2026-03-01','week','one','a7365487aa3f3e782936941a1d468bd0','2026-03-01 00:05:01.000000+00:00',NULL,'2026-03-01 00:05:01.000000+00:00','ok',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,'unbilled',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('9f6fde36012df7714f8826ec3a62d04a00c00f6688a59536dc201369b7ba679d',1,'arena','arena/intervention','arena','week','one','615440053a82c4f4d0c0f613f30d34ed','2026-03-01 00:05:01.000000+00:00',NULL,'2026-03-01 00:05:01.000000+00:00','ok',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,'unbilled',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('4282e5e242203857d7e7421903679275245f8db50d16bf7b55e5fa23697bdaf6',1,'arena','arena/intervention','arena','week','one','9ea6f12103a4c179a309737d015c3db7','2026-03-01 00:05:01.000000+00:00',NULL,'2026-03-01 00:05:01.000000+00:00','ok',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,'unbilled',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('2915e3ba730d387a1dc51ff2d631d2dac98b087f582b6e78f0b3e0857593f73e',1,'arena','arena/prompt','2026-03-01/acme/2026-03-01','week','one','31e599d3ecd403c7bd02a1377ffbde61','2026-03-01 00:05:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',NULL,'abandoned',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('2915e3ba730d387a1dc51ff2d631d2dac98b087f582b6e78f0b3e0857593f73e',2,'arena','arena/prompt','2026-03-01/acme/2026-03-01','week','one','5d003a7682b259e99fc59062716e4935','2026-03-01 00:05:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',NULL,'abandoned',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('2915e3ba730d387a1dc51ff2d631d2dac98b087f582b6e78f0b3e0857593f73e',3,'arena','arena/prompt','2026-03-01/acme/2026-03-01','week','one','dccd74f9a46ec2969b4946be8b11205c','2026-03-01 00:05:01.000000+00:00',NULL,'2026-03-01 00:05:01.000000+00:00','ok',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,'unbilled',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('79c49d8167a65fe180d711ce0de5c39191380cc2024ef140cb43146ee03f267d',1,'arena','arena/intent','2026-03-01/acme/2026-03-01','week','one','bdf58447bbd3ef17b9241c920736ed01','2026-03-01 00:05:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',NULL,'abandoned',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('b25e5e5fec013f9198098c3cf71a41243b17a8076125764c3bd1fa1535a29a63',1,'arena','arena/execution','2026-03-01/acme/2026-03-01','late','other','eb6f388e4bffb01a81811d78d4097e52','2026-03-01 00:05:01.000000+00:00',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('d1fbe4fb954d92665652c7126d7a93cd756c7412800b6ccb19081d7ce0384ceb',1,'arena','arena/execution','2026-03-01/beta/2026-03-01',NULL,'slow','3f9799c25c00a678d4da2a87c3f2bf25','2026-03-01 00:05:01.000000+00:00','2026-03-01 00:05:06.000000+00:00','2026-03-01 00:05:06.000000+00:00','ok',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('d1fbe4fb954d92665652c7126d7a93cd756c7412800b6ccb19081d7ce0384ceb',2,'arena','arena/execution','2026-03-01/beta/2026-03-01',NULL,'quick','40c0085eee472315fd53525f4051e56c','2026-03-01 00:05:06.000000+00:00',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE calls (
	"key" VARCHAR(64) NOT NULL, 
	model TEXT NOT NULL, 
	purpose TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	sample INTEGER NOT NULL, 
	request TEXT NOT NULL, 
	state TEXT NOT NULL, 
	holder TEXT, 
	lease_token TEXT, 
	lease_expires_at VARCHAR(32), 
	created_at VARCHAR(32) NOT NULL, 
	finished_at VARCHAR(32), 
	answer INTEGER, 
	outcome TEXT, 
	reason TEXT, 
	CONSTRAINT calls_key PRIMARY KEY ("key"), 
	CONSTRAINT calls_state CHECK (state IN ('open', 'claimed', 'answered', 'failed')), 
	CONSTRAINT calls_outcome CHECK (outcome IN ('ok', 'timeout', 'rate_limit', 'out_of_credit', 'authentication', 'refusal', 'truncation', 'malformed', 'provider_error', 'abandoned')), 
	CONSTRAINT calls_answered_by_an_attempt CHECK ((state = 'answered') = (answer IS NOT NULL)), 
	CONSTRAINT calls_finished_at CHECK ((state IN ('answered', 'failed')) = (finished_at IS NOT NULL)), 
	CONSTRAINT calls_failed_with_a_reason CHECK (state <> 'failed' OR (outcome IS NOT NULL AND reason IS NOT NULL)), 
	CONSTRAINT calls_claimed_by_somebody CHECK (state <> 'claimed' OR (holder IS NOT NULL AND lease_token IS NOT NULL AND lease_expires_at IS NOT NULL))
);
INSERT INTO "calls" VALUES('1f8436ebc7b80e28da14cf8a2e179d55a4fa8d8caf260ae81874d58e4b1ff628','acme/oracle-2','benchmark/forecasts','r2026',0,'{"messages":[{"content":"Give a probability.","role":"system"},{"content":"Will event 0 happen?","role":"user"}],"model":"acme/oracle-2","parameters":{"max_tokens":400,"temperature":0},"purpose":"benchmark/forecasts","sample":0,"scope":"r2026","v":1}','answered','one','800a0004b960cd35dcbedddfc00995ae','2026-03-01 00:07:00.000000+00:00','2026-03-01 00:05:00.000000+00:00','2026-03-01 00:05:00.000000+00:00',1,'ok',NULL);
INSERT INTO "calls" VALUES('a9145498392bd6fddac7d6361c8b99e61dfb3cecef4ca693049ce73a60381612','acme/oracle-2','benchmark/forecasts','r2026',0,'{"messages":[{"content":"Give a probability.","role":"system"},{"content":"Will event 1 happen?","role":"user"}],"model":"acme/oracle-2","parameters":{"max_tokens":400,"temperature":0},"purpose":"benchmark/forecasts","sample":0,"scope":"r2026","v":1}','open','one','1f11599346c2b91d7cf25079a762c8f2','2026-03-01 00:07:00.000000+00:00','2026-03-01 00:05:00.000000+00:00',NULL,NULL,'refusal','no');
INSERT INTO "calls" VALUES('0811204d11e19b1602199b31c540fd69d8c9076a78ebbf1411dfa78743d764f3','arena','arena/decisions','2026-03-01/own/2026-03-01',0,'{"messages":[{"content":"Give a probability.","role":"system"},{"content":"Will event 2 happen?","role":"user"}],"model":"arena","parameters":{"max_tokens":400,"temperature":0},"purpose":"arena/decisions","sample":0,"scope":"2026-03-01/own/2026-03-01","v":1}','answered','one','8ebef8a4b189eb0661a917b86123808f','2026-03-01 00:07:00.000000+00:00','2026-03-01 00:05:00.000000+00:00','2026-03-01 00:05:00.000000+00:00',1,'ok',NULL);
INSERT INTO "calls" VALUES('c320c516318082405204e4c08434f9ad0d898890199ecbe309227a99b25388a6','arena','arena/universe','2026-03-01',0,'{"messages":[],"model":"arena","parameters":{},"purpose":"arena/universe","sample":0,"scope":"2026-03-01","v":1}','answered','one','f5d0ff75f56c3c0f9d30a7933b42731b','2026-03-01 00:07:00.000000+00:00','2026-03-01 00:05:00.000000+00:00','2026-03-01 00:05:00.000000+00:00',1,'ok',NULL);
INSERT INTO "calls" VALUES('8b7b4a5869364d75ba6cd520c3c72e6eff0feb81d70cf5c08f0cdb5c3aae0d57','arena','arena/cohort','2026-03-01',0,'{"messages":[],"model":"arena","parameters":{},"purpose":"arena/cohort","sample":0,"scope":"2026-03-01","v":1}','answered','one','a7365487aa3f3e782936941a1d468bd0','2026-03-01 00:07:01.000000+00:00','2026-03-01 00:05:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',1,'ok',NULL);
INSERT INTO "calls" VALUES('9f6fde36012df7714f8826ec3a62d04a00c00f6688a59536dc201369b7ba679d','arena','arena/intervention','arena',0,'{"messages":[],"model":"arena","parameters":{},"purpose":"arena/intervention","sample":0,"scope":"arena","v":1}','answered','one','615440053a82c4f4d0c0f613f30d34ed','2026-03-01 00:07:01.000000+00:00','2026-03-01 00:05:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',1,'ok',NULL);
INSERT INTO "calls" VALUES('4282e5e242203857d7e7421903679275245f8db50d16bf7b55e5fa23697bdaf6','arena','arena/intervention','arena',1,'{"messages":[],"model":"arena","parameters":{},"purpose":"arena/intervention","sample":1,"scope":"arena","v":1}','answered','one','9ea6f12103a4c179a309737d015c3db7','2026-03-01 00:07:01.000000+00:00','2026-03-01 00:05:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',1,'ok',NULL);
INSERT INTO "calls" VALUES('2915e3ba730d387a1dc51ff2d631d2dac98b087f582b6e78f0b3e0857593f73e','arena','arena/prompt','2026-03-01/acme/2026-03-01',0,'{"messages":[],"model":"arena","parameters":{},"purpose":"arena/prompt","sample":0,"scope":"2026-03-01/acme/2026-03-01","v":1}','answered','one','dccd74f9a46ec2969b4946be8b11205c','2026-03-01 00:07:01.000000+00:00','2026-03-01 00:05:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',3,'ok',NULL);
INSERT INTO "calls" VALUES('79c49d8167a65fe180d711ce0de5c39191380cc2024ef140cb43146ee03f267d','arena','arena/intent','2026-03-01/acme/2026-03-01',0,'{"messages":[],"model":"arena","parameters":{},"purpose":"arena/intent","sample":0,"scope":"2026-03-01/acme/2026-03-01","v":1}','open','one','bdf58447bbd3ef17b9241c920736ed01','2026-03-01 00:07:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',NULL,NULL,'provider_error','ValueError: no venue');
INSERT INTO "calls" VALUES('b25e5e5fec013f9198098c3cf71a41243b17a8076125764c3bd1fa1535a29a63','arena','arena/execution','2026-03-01/acme/2026-03-01',0,'{"messages":[],"model":"arena","parameters":{},"purpose":"arena/execution","sample":0,"scope":"2026-03-01/acme/2026-03-01","v":1}','claimed','other','eb6f388e4bffb01a81811d78d4097e52','2026-03-01 00:07:01.000000+00:00','2026-03-01 00:05:01.000000+00:00',NULL,NULL,NULL,NULL);
INSERT INTO "calls" VALUES('d1fbe4fb954d92665652c7126d7a93cd756c7412800b6ccb19081d7ce0384ceb','arena','arena/execution','2026-03-01/beta/2026-03-01',0,'{"messages":[],"model":"arena","parameters":{},"purpose":"arena/execution","sample":0,"scope":"2026-03-01/beta/2026-03-01","v":1}','claimed','quick','40c0085eee472315fd53525f4051e56c','2026-03-01 00:07:06.000000+00:00','2026-03-01 00:05:01.000000+00:00',NULL,NULL,NULL,NULL);
CREATE TABLE journal_version (
	version INTEGER NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT journal_version_key PRIMARY KEY (version)
);
INSERT INTO "journal_version" VALUES(1,'2026-03-01 00:05:00.000000+00:00');
CREATE TABLE reopenings (
	"key" VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	reopened_at VARCHAR(32) NOT NULL, 
	reopened_by TEXT NOT NULL, 
	note TEXT NOT NULL, 
	failed_at VARCHAR(32) NOT NULL, 
	outcome TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	CONSTRAINT reopenings_key PRIMARY KEY ("key", number), 
	CONSTRAINT reopenings_of FOREIGN KEY("key") REFERENCES calls ("key")
);
INSERT INTO "reopenings" VALUES('a9145498392bd6fddac7d6361c8b99e61dfb3cecef4ca693049ce73a60381612',1,'2026-03-01 00:05:00.000000+00:00','ana','again','2026-03-01 00:05:00.000000+00:00','refusal','no');
CREATE TABLE responses (
	"key" VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	content TEXT, 
	reasoning TEXT, 
	finish_reason TEXT, 
	stored_at VARCHAR(32) NOT NULL, 
	CONSTRAINT responses_key PRIMARY KEY ("key", number), 
	CONSTRAINT responses_of FOREIGN KEY("key", number) REFERENCES attempts ("key", number)
);
INSERT INTO "responses" VALUES('1f8436ebc7b80e28da14cf8a2e179d55a4fa8d8caf260ae81874d58e4b1ff628',1,X'7B2274657874223A2022302E37227D','0.7','because','stop','2026-03-01 00:05:00.000000+00:00');
INSERT INTO "responses" VALUES('0811204d11e19b1602199b31c540fd69d8c9076a78ebbf1411dfa78743d764f3',1,X'7B2274657874223A20226F776E227D','own','because','stop','2026-03-01 00:05:00.000000+00:00');
INSERT INTO "responses" VALUES('c320c516318082405204e4c08434f9ad0d898890199ecbe309227a99b25388a6',1,X'7B226D61726B657473223A5B5D7D','',NULL,NULL,'2026-03-01 00:05:00.000000+00:00');
INSERT INTO "responses" VALUES('8b7b4a5869364d75ba6cd520c3c72e6eff0feb81d70cf5c08f0cdb5c3aae0d57',1,X'7B226C696E657570223A22636166C3A9227D','',NULL,NULL,'2026-03-01 00:05:01.000000+00:00');
INSERT INTO "responses" VALUES('9f6fde36012df7714f8826ec3a62d04a00c00f6688a59536dc201369b7ba679d',1,X'6669727374','',NULL,NULL,'2026-03-01 00:05:01.000000+00:00');
INSERT INTO "responses" VALUES('4282e5e242203857d7e7421903679275245f8db50d16bf7b55e5fa23697bdaf6',1,X'7365636F6E64','',NULL,NULL,'2026-03-01 00:05:01.000000+00:00');
INSERT INTO "responses" VALUES('2915e3ba730d387a1dc51ff2d631d2dac98b087f582b6e78f0b3e0857593f73e',3,X'7B226D6F64656C223A2261636D65227D','',NULL,NULL,'2026-03-01 00:05:01.000000+00:00');
INSERT INTO "responses" VALUES('d1fbe4fb954d92665652c7126d7a93cd756c7412800b6ccb19081d7ce0384ceb',1,X'6C617465','',NULL,NULL,'2026-03-01 00:05:06.000000+00:00');
CREATE INDEX calls_by_state ON calls (state, lease_expires_at);
CREATE INDEX attempts_by_run ON attempts (run, model, outcome, estimate_microdollars, cost_microdollars);
CREATE INDEX attempts_by_purpose ON attempts (purpose, model, scope, run, outcome, estimate_microdollars, cost_microdollars);
COMMIT;
