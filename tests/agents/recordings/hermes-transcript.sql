CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    user_id TEXT,
    session_key TEXT,
    chat_id TEXT,
    chat_type TEXT,
    thread_id TEXT,
    display_name TEXT,
    origin_json TEXT,
    expiry_finalized INTEGER DEFAULT 0,
    model TEXT,
    model_config TEXT,
    system_prompt TEXT,
    parent_session_id TEXT,
    started_at REAL NOT NULL,
    ended_at REAL,
    end_reason TEXT,
    message_count INTEGER DEFAULT 0,
    tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0,
    cwd TEXT,
    git_branch TEXT,
    git_repo_root TEXT,
    billing_provider TEXT,
    billing_base_url TEXT,
    billing_mode TEXT,
    estimated_cost_usd REAL,
    actual_cost_usd REAL,
    cost_status TEXT,
    cost_source TEXT,
    pricing_version TEXT,
    title TEXT,
    api_call_count INTEGER DEFAULT 0,
    handoff_state TEXT,
    handoff_platform TEXT,
    handoff_error TEXT,
    compression_failure_cooldown_until REAL,
    compression_failure_error TEXT,
    compression_fallback_streak INTEGER NOT NULL DEFAULT 0,
    profile_name TEXT,
    rewind_count INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (parent_session_id) REFERENCES sessions(id)
);
INSERT INTO sessions VALUES ('20261118_124041_61fbaf', 'cli', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 'scripted-1', '{"max_iterations": 90, "reasoning_config": null, "max_tokens": null}', '(the agent''s own)', NULL, 1795005646.237329, NULL, NULL, 10, 4, 15660, 136, 0, 0, 0, '/home/somebody/project', NULL, NULL, 'custom', 'http://127.0.0.1:40321/v1', NULL, 0.0, NULL, 'unknown', 'none', NULL, NULL, 5, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL,
    content TEXT,
    tool_call_id TEXT,
    tool_calls TEXT,
    tool_name TEXT,
    effect_disposition TEXT,
    timestamp REAL NOT NULL,
    token_count INTEGER,
    finish_reason TEXT,
    reasoning TEXT,
    reasoning_content TEXT,
    reasoning_details TEXT,
    codex_reasoning_items TEXT,
    codex_message_items TEXT,
    platform_message_id TEXT,
    observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0,
    api_content TEXT
);
INSERT INTO messages VALUES (1, '20261118_124041_61fbaf', 'user', 'Write one, two and three into result.txt, each in a line of its own. Go step by step.', NULL, NULL, NULL, NULL, 1795005646.2481484, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (2, '20261118_124041_61fbaf', 'assistant', 'I will begin the list with its first word.', NULL, '[{"id": "call_0010", "call_id": "call_0010", "response_item_id": "fc_0010", "type": "function", "function": {"name": "terminal", "arguments": "{\"command\": \"mkdir -p notes && echo one > notes/list.txt\"}"}}]', NULL, NULL, 1795005647.4857547, NULL, 'tool_calls', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (3, '20261118_124041_61fbaf', 'tool', '{"output": "", "exit_code": 0, "error": null}', 'call_0010', NULL, 'terminal', NULL, 1795005647.5990238, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (4, '20261118_124041_61fbaf', 'assistant', 'Now the second word.', NULL, '[{"id": "call_0020", "call_id": "call_0020", "response_item_id": "fc_0020", "type": "function", "function": {"name": "terminal", "arguments": "{\"command\": \"printf ''one\\\\ntwo\\\\n'' > notes/list.txt\"}"}}]', NULL, NULL, 1795005648.2354002, NULL, 'tool_calls', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (5, '20261118_124041_61fbaf', 'tool', '{"output": "", "exit_code": 0, "error": null}', 'call_0020', NULL, 'terminal', NULL, 1795005648.2889667, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (6, '20261118_124041_61fbaf', 'assistant', 'The third word, and a look at the whole list.', NULL, '[{"id": "call_0030", "call_id": "call_0030", "response_item_id": "fc_0030", "type": "function", "function": {"name": "terminal", "arguments": "{\"command\": \"printf ''one\\\\ntwo\\\\nthree\\\\n'' > notes/list.txt && cat notes/list.txt\"}"}}]', NULL, NULL, 1795005648.6915443, NULL, 'tool_calls', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (7, '20261118_124041_61fbaf', 'tool', '{"output": "one\ntwo\nthree", "exit_code": 0, "error": null}', 'call_0030', NULL, 'terminal', NULL, 1795005648.7512968, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (8, '20261118_124041_61fbaf', 'assistant', 'The list is complete, so I copy it to its place.', NULL, '[{"id": "call_0040", "call_id": "call_0040", "response_item_id": "fc_0040", "type": "function", "function": {"name": "terminal", "arguments": "{\"command\": \"cp notes/list.txt result.txt && wc -l < result.txt\"}"}}]', NULL, NULL, 1795005649.1713195, NULL, 'tool_calls', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (9, '20261118_124041_61fbaf', 'tool', '{"output": "3", "exit_code": 0, "error": null}', 'call_0040', NULL, 'terminal', NULL, 1795005649.2237587, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO messages VALUES (10, '20261118_124041_61fbaf', 'assistant', 'The file result.txt has the three words, each in a line of its own.', NULL, NULL, NULL, NULL, 1795005649.6113095, NULL, 'stop', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
