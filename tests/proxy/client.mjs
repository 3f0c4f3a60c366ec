// Drives the proxy with the openai package, as its users do: prints what it saw as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, baseURL, models] = process.argv.slice(2);
const entry = createRequire(`${folder}/package.json`).resolve("openai");
const { default: OpenAI } = await import(pathToFileURL(entry));
const client = new OpenAI({ baseURL, apiKey: "sk-test", maxRetries: 0 });
const messages = [{ role: "user", content: "Tell me about millgates." }];
const named = JSON.parse(models);

async function streamed(model, more = {}) {
  const seen = { text: "", thought: "", ids: [], usage: null, calls: "", error: "" };
  try {
    const stream = await client.chat.completions.create({ model, messages, stream: true, ...more });
    for await (const chunk of stream) {
      const delta = chunk.choices[0]?.delta ?? {};
      seen.text += delta.content ?? "";
      seen.thought += delta.reasoning_content ?? "";
      seen.calls += delta.tool_calls?.[0]?.function?.arguments ?? "";
      if (!seen.ids.includes(chunk.id)) seen.ids.push(chunk.id);
      seen.usage = chunk.usage ?? seen.usage;
    }
  } catch (error) {
    seen.error = `${error.status ?? "stream"}: ${error.message}`;
  }
  return seen;
}

const out = {};
for (const name of ["clean", "loop", "reasoning", "tools", "early", "late"]) out[name] = await streamed(named[name]);
out.structured = await streamed(named.structured, { response_format: { type: "json_object" } });
const whole = await client.chat.completions.create({ model: named.whole, messages });
out.whole = { text: whole.choices[0].message.content, usage: whole.usage };
async function responded(model, more = {}) {
  const seen = { text: "", ids: [], numbers: [], error: "", final: null };
  try {
    const stream = await client.responses.create({ model, input: "Tell me about millgates.", stream: true, ...more });
    for await (const event of stream) {
      if (event.type === "response.output_text.delta") seen.text += event.delta;
      if (event.response && !seen.ids.includes(event.response.id)) seen.ids.push(event.response.id);
      if (event.type === "error") seen.error = event.message;
      seen.numbers.push(event.sequence_number);
      if (event.type === "response.completed") seen.final = event.response;
    }
  } catch (error) {
    seen.error = `${error.status ?? "stream"}: ${error.message}`;
  }
  return seen;
}

for (const name of ["responses", "responsesLoop", "responsesTools", "responsesEarly", "responsesLate"]) {
  out[name] = await responded(named[name]);
}
const answer = await client.responses.create({ model: named.responsesWhole, input: "Hi" });
out.responsesWhole = { id: answer.id, text: answer.output_text, usage: answer.usage };
console.log(JSON.stringify(out));
