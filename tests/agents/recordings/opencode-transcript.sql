CREATE TABLE `message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
INSERT INTO message VALUES ('msg_1eead9bb9001B7aJ4xeUXhnAGm', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005717433, 1795005736667, '{"role": "user", "time": {"created": 1795005717433}, "agent": "build", "model": {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}, "summary": {"diffs": [{"file": "notes/list.txt", "patch": "Index: notes/list.txt\n===================================================================\n--- notes/list.txt\t\n+++ notes/list.txt\t\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n", "additions": 3, "deletions": 0, "status": "added"}, {"file": "result.txt", "patch": "Index: result.txt\n===================================================================\n--- result.txt\t\n+++ result.txt\t\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n", "additions": 3, "deletions": 0, "status": "added"}]}}');
INSERT INTO message VALUES ('msg_1eeadaca8001YcGrH3Kqa6QJ7V', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005721768, 1795005731242, '{"parentID": "msg_1eead9bb9001B7aJ4xeUXhnAGm", "role": "assistant", "mode": "build", "agent": "build", "path": {"cwd": "/home/somebody/project", "root": "/home/somebody/project"}, "cost": 0.023511, "tokens": {"total": 7689, "input": 7652, "output": 37, "reasoning": 0, "cache": {"write": 0, "read": 0}}, "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "time": {"created": 1795005721768, "completed": 1795005731240}, "finish": "tool-calls"}');
INSERT INTO message VALUES ('msg_1eeadd1bc001AYTc5DVvhIjUk3', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005731260, 1795005732271, '{"parentID": "msg_1eead9bb9001B7aJ4xeUXhnAGm", "role": "assistant", "mode": "build", "agent": "build", "path": {"cwd": "/home/somebody/project", "root": "/home/somebody/project"}, "cost": 0.023718, "tokens": {"total": 7782, "input": 7751, "output": 31, "reasoning": 0, "cache": {"write": 0, "read": 0}}, "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "time": {"created": 1795005731260, "completed": 1795005732268}, "finish": "tool-calls"}');
INSERT INTO message VALUES ('msg_1eeadd5bb001deDgpEdp3Y1GM8', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005732283, 1795005733636, '{"parentID": "msg_1eead9bb9001B7aJ4xeUXhnAGm", "role": "assistant", "mode": "build", "agent": "build", "path": {"cwd": "/home/somebody/project", "root": "/home/somebody/project"}, "cost": 0.024162, "tokens": {"total": 7878, "input": 7834, "output": 44, "reasoning": 0, "cache": {"write": 0, "read": 0}}, "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "time": {"created": 1795005732283, "completed": 1795005733635}, "finish": "tool-calls"}');
INSERT INTO message VALUES ('msg_1eeaddb2800111CUM6HQh6bXX0', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005733672, 1795005735678, '{"parentID": "msg_1eead9bb9001B7aJ4xeUXhnAGm", "role": "assistant", "mode": "build", "agent": "build", "path": {"cwd": "/home/somebody/project", "root": "/home/somebody/project"}, "cost": 0.024411, "tokens": {"total": 7973, "input": 7932, "output": 41, "reasoning": 0, "cache": {"write": 0, "read": 0}}, "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "time": {"created": 1795005733672, "completed": 1795005735677}, "finish": "tool-calls"}');
INSERT INTO message VALUES ('msg_1eeade30700122Y577lPvaXfWt', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005735687, 1795005737016, '{"parentID": "msg_1eead9bb9001B7aJ4xeUXhnAGm", "role": "assistant", "mode": "build", "agent": "build", "path": {"cwd": "/home/somebody/project", "root": "/home/somebody/project"}, "cost": 0.024324, "tokens": {"total": 8040, "input": 8023, "output": 17, "reasoning": 0, "cache": {"write": 0, "read": 0}}, "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "time": {"created": 1795005735687, "completed": 1795005737015}, "finish": "stop"}');
CREATE TABLE `part` (
          `id` text PRIMARY KEY,
          `message_id` text NOT NULL,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_part_message_id_message_id_fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
        );
INSERT INTO part VALUES ('prt_1eead9c00001nn9586iV770nFw', 'msg_1eead9bb9001B7aJ4xeUXhnAGm', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005721500, 1795005721516, '{"type":"text","text":"\"Write one, two and three into result.txt, each in a line of its own. Go step by step.\""}');
INSERT INTO part VALUES ('prt_1eeadc7f0001Hnp88N7QcV0Hhk', 'msg_1eeadaca8001YcGrH3Kqa6QJ7V', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005728753, 1795005728769, '{"snapshot":"786ac74ea5225aec05f51713adcf167b274a8463","type":"step-start"}');
INSERT INTO part VALUES ('prt_1eeadc8200013s0jk48N323reU', 'msg_1eeadaca8001YcGrH3Kqa6QJ7V', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005728800, 1795005728871, '{"type":"text","text":"I will begin the list with its first word.","time":{"start":1795005728800,"end":1795005728826}}');
INSERT INTO part VALUES ('prt_1eeadc87c0015UP7ZQoVlStsc5', 'msg_1eeadaca8001YcGrH3Kqa6QJ7V', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005728892, 1795005730195, '{"type":"tool","tool":"bash","callID":"toolu_0010","state":{"status":"completed","input":{"command":"mkdir -p notes && echo one > notes/list.txt","description":"One step of the task"},"output":"(no output)","metadata":{"output":"(no output)","exit":0,"truncated":false},"title":"mkdir -p notes && echo one > notes/list.txt","time":{"start":1795005729666,"end":1795005730103}}}');
INSERT INTO part VALUES ('prt_1eeadd0d6001M4SSTf5gAV1jTD', 'msg_1eeadaca8001YcGrH3Kqa6QJ7V', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005731030, 1795005731035, '{"reason":"tool-calls","snapshot":"ca07c258951a7b29e011835171c40bd6fff0d329","type":"step-finish","tokens":{"total":7689,"input":7652,"output":37,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.023511}');
INSERT INTO part VALUES ('prt_1eeadd1a0001eEq3UixAT4Zv5j', 'msg_1eeadaca8001YcGrH3Kqa6QJ7V', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005731232, 1795005731235, '{"type":"patch","hash":"786ac74ea5225aec05f51713adcf167b274a8463","files":["/home/somebody/project/notes/list.txt"]}');
INSERT INTO part VALUES ('prt_1eeadd2ca0013yh2ZbRbEyz8C3', 'msg_1eeadd1bc001AYTc5DVvhIjUk3', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005731530, 1795005731536, '{"snapshot":"ca07c258951a7b29e011835171c40bd6fff0d329","type":"step-start"}');
INSERT INTO part VALUES ('prt_1eeadd2d2001CozPDx675ll0KF', 'msg_1eeadd1bc001AYTc5DVvhIjUk3', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005731541, 1795005731547, '{"type":"text","text":"Now the second word.","time":{"start":1795005731538,"end":1795005731546}}');
INSERT INTO part VALUES ('prt_1eeadd2dd001iWE575USppETUB', 'msg_1eeadd1bc001AYTc5DVvhIjUk3', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005731549, 1795005731677, '{"type":"tool","tool":"bash","callID":"toolu_0020","state":{"status":"completed","input":{"command":"printf ''one\\ntwo\\n'' > notes/list.txt","description":"One step of the task"},"output":"(no output)","metadata":{"output":"(no output)","exit":0,"truncated":false},"title":"printf ''one\\ntwo\\n'' > notes/list.txt","time":{"start":1795005731576,"end":1795005731674}}}');
INSERT INTO part VALUES ('prt_1eeadd53e001mHuV64e0jYrltt', 'msg_1eeadd1bc001AYTc5DVvhIjUk3', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005732158, 1795005732165, '{"reason":"tool-calls","snapshot":"40755c005d76caf283ac88dee271ce0764a955e2","type":"step-finish","tokens":{"total":7782,"input":7751,"output":31,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.023718}');
INSERT INTO part VALUES ('prt_1eeadd5a6001998PJt9vvimIlh', 'msg_1eeadd1bc001AYTc5DVvhIjUk3', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005732262, 1795005732265, '{"type":"patch","hash":"ca07c258951a7b29e011835171c40bd6fff0d329","files":["/home/somebody/project/notes/list.txt"]}');
INSERT INTO part VALUES ('prt_1eeadd6ec001el0J8YSq47QlXt', 'msg_1eeadd5bb001deDgpEdp3Y1GM8', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005732589, 1795005732599, '{"snapshot":"40755c005d76caf283ac88dee271ce0764a955e2","type":"step-start"}');
INSERT INTO part VALUES ('prt_1eeadd7030011POyIoHhU12UmS', 'msg_1eeadd5bb001deDgpEdp3Y1GM8', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005732611, 1795005732661, '{"type":"text","text":"The third word, and a look at the whole list.","time":{"start":1795005732611,"end":1795005732641}}');
INSERT INTO part VALUES ('prt_1eeadd756001vrsLGuKABVmRAg', 'msg_1eeadd5bb001deDgpEdp3Y1GM8', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005732694, 1795005733012, '{"type": "tool", "tool": "bash", "callID": "toolu_0030", "state": {"status": "completed", "input": {"command": "printf ''one\\ntwo\\nthree\\n'' > notes/list.txt && cat notes/list.txt", "description": "One step of the task"}, "output": "one\ntwo\nthree\n", "metadata": {"output": "one\ntwo\nthree\n", "exit": 0, "truncated": false}, "title": "printf ''one\\ntwo\\nthree\\n'' > notes/list.txt && cat notes/list.txt", "time": {"start": 1795005732969, "end": 1795005733003}}}');
INSERT INTO part VALUES ('prt_1eeadda7c001G3ss2NH0lDajiK', 'msg_1eeadd5bb001deDgpEdp3Y1GM8', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005733500, 1795005733502, '{"reason":"tool-calls","snapshot":"e2b03c9cde1be1fb24b2ad0344783252d8ae7b9a","type":"step-finish","tokens":{"total":7878,"input":7834,"output":44,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.024162}');
INSERT INTO part VALUES ('prt_1eeaddaf7001GbEA8FssEWjbRQ', 'msg_1eeadd5bb001deDgpEdp3Y1GM8', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005733623, 1795005733625, '{"type":"patch","hash":"40755c005d76caf283ac88dee271ce0764a955e2","files":["/home/somebody/project/notes/list.txt"]}');
INSERT INTO part VALUES ('prt_1eeaddcbe001icqZw0fooRlP7Y', 'msg_1eeaddb2800111CUM6HQh6bXX0', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005734078, 1795005734080, '{"snapshot":"e2b03c9cde1be1fb24b2ad0344783252d8ae7b9a","type":"step-start"}');
INSERT INTO part VALUES ('prt_1eeaddcca001NITCSKL8E8Tpn8', 'msg_1eeaddb2800111CUM6HQh6bXX0', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005734090, 1795005734139, '{"type":"text","text":"The list is complete, so I copy it to its place.","time":{"start":1795005734090,"end":1795005734125}}');
INSERT INTO part VALUES ('prt_1eeaddcfd001MavHWqh8P9JjeY', 'msg_1eeaddb2800111CUM6HQh6bXX0', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005734141, 1795005734416, '{"type":"tool","tool":"bash","callID":"toolu_0040","state":{"status":"completed","input":{"command":"cp notes/list.txt result.txt && wc -l < result.txt","description":"One step of the task"},"output":"3\n","metadata":{"output":"3\n","exit":0,"truncated":false},"title":"cp notes/list.txt result.txt && wc -l < result.txt","time":{"start":1795005734380,"end":1795005734402}}}');
INSERT INTO part VALUES ('prt_1eeade16b0012lGT4L9MQaHqRY', 'msg_1eeaddb2800111CUM6HQh6bXX0', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005735275, 1795005735277, '{"reason":"tool-calls","snapshot":"73d03dcbd8f26cab838298dbaed13d672a8b6729","type":"step-finish","tokens":{"total":7973,"input":7932,"output":41,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.024411}');
INSERT INTO part VALUES ('prt_1eeade2f8001wPIE8fbrspLag9', 'msg_1eeaddb2800111CUM6HQh6bXX0', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005735672, 1795005735674, '{"type":"patch","hash":"e2b03c9cde1be1fb24b2ad0344783252d8ae7b9a","files":["/home/somebody/project/result.txt"]}');
INSERT INTO part VALUES ('prt_1eeade5a4001O3hLeDdVmrKgjN', 'msg_1eeade30700122Y577lPvaXfWt', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005736356, 1795005736364, '{"snapshot":"73d03dcbd8f26cab838298dbaed13d672a8b6729","type":"step-start"}');
INSERT INTO part VALUES ('prt_1eeade5b900183l85MXt9PSLrP', 'msg_1eeade30700122Y577lPvaXfWt', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005736377, 1795005736409, '{"type":"text","text":"The file result.txt has the three words, each in a line of its own.","time":{"start":1795005736377,"end":1795005736407}}');
INSERT INTO part VALUES ('prt_1eeade7a8001F53oJ8lqDRHPTh', 'msg_1eeade30700122Y577lPvaXfWt', 'ses_e1152666cffehsp2ompUiVsZnh', 1795005736872, 1795005736874, '{"reason":"stop","snapshot":"73d03dcbd8f26cab838298dbaed13d672a8b6729","type":"step-finish","tokens":{"total":8040,"input":8023,"output":17,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.024324}');
CREATE TABLE `session` (
          `id` text PRIMARY KEY,
          `project_id` text NOT NULL,
          `workspace_id` text,
          `parent_id` text,
          `slug` text NOT NULL,
          `directory` text NOT NULL,
          `path` text,
          `title` text NOT NULL,
          `version` text NOT NULL,
          `share_url` text,
          `summary_additions` integer,
          `summary_deletions` integer,
          `summary_files` integer,
          `summary_diffs` text,
          `metadata` text,
          `cost` real DEFAULT 0 NOT NULL,
          `tokens_input` integer DEFAULT 0 NOT NULL,
          `tokens_output` integer DEFAULT 0 NOT NULL,
          `tokens_reasoning` integer DEFAULT 0 NOT NULL,
          `tokens_cache_read` integer DEFAULT 0 NOT NULL,
          `tokens_cache_write` integer DEFAULT 0 NOT NULL,
          `revert` text,
          `permission` text,
          `agent` text,
          `model` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_compacting` integer,
          `time_archived` integer,
          CONSTRAINT `fk_session_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
INSERT INTO session VALUES ('ses_e1152666cffehsp2ompUiVsZnh', 'global', NULL, NULL, 'glowing-wolf', '/home/somebody/project', '', 'A list of three words', '1.18.18', NULL, 0, 0, 0, NULL, NULL, 0.120126, 39192, 170, 0, 0, 0, NULL, '[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]', 'build', '{"id":"claude-sonnet-4-5","providerID":"anthropic","variant":"default"}', 1795005716883, 1795005737034, NULL, NULL);
