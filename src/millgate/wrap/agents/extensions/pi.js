// Sends pi's model calls to `millgate wrap`. pi loads it as an extension for one run.
//
// pi's own registry knows the address of every model, from its built-in list, models.json, logins and extensions. Each
// keeps the address that pi would have called: it becomes a part of ours. Models are read again before each prompt,
// since a login or a reload makes them anew.

const READ = ["anthropic-messages", "google-generative-ai", "openai-completions", "openai-responses"]

export default function (pi) {
  const root = process.env.MILLGATE_WRAP_ROOT
  const given = JSON.parse(process.env.MILLGATE_WRAP_UPSTREAMS ?? "{}")
  const redirect = (address) => {
    const { protocol, host, pathname } = new URL(address)
    return `${root}/to/${protocol.slice(0, -1)}/${host}${pathname.replace(/\/+$/, "")}`
  }
  const redirectAll = (_, context) => {
    for (const model of [...context.modelRegistry.getAll(), context.model]) {
      if (!root || !model || !READ.includes(model.api)) continue
      const address = model.baseUrl ?? ""
      if (/^https?:/.test(address) && !address.startsWith(root)) {
        model.baseUrl = redirect(given[model.provider] ?? address)
      }
    }
  }
  for (const event of ["session_start", "model_select", "before_agent_start"]) {
    pi.on(event, redirectAll)
  }
}
