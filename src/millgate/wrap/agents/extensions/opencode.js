// Sends OpenCode's model calls to `millgate wrap`. OpenCode loads it as a plugin for one run.
//
// The hook gets OpenCode's configuration as OpenCode itself put it together, from every file, flag and remote source.
// So each provider keeps the address that OpenCode would have called: it becomes a part of ours.

const DEFAULTS = { anthropic: "https://api.anthropic.com/v1", openai: "https://api.openai.com/v1" }
const VARIABLES = { anthropic: "ANTHROPIC_BASE_URL", openai: "OPENAI_BASE_URL" }

export const MillgateWrap = async () => ({
  config: async (config) => {
    const root = process.env.MILLGATE_WRAP_ROOT
    const given = JSON.parse(process.env.MILLGATE_WRAP_UPSTREAMS ?? "{}")
    if (!root) return
    const redirect = (address) => {
      const { protocol, host, pathname } = new URL(address)
      return `${root}/to/${protocol.slice(0, -1)}/${host}${pathname.replace(/\/+$/, "")}`
    }
    config.provider ??= {}
    for (const name of Object.keys(DEFAULTS)) config.provider[name] ??= {}
    for (const [name, provider] of Object.entries(config.provider)) {
      provider.options ??= {}
      const address =
        given[name] ?? (provider.options.baseURL || process.env[VARIABLES[name]] || DEFAULTS[name])
      if (/^https?:/.test(address ?? "")) provider.options.baseURL = redirect(address)
    }
  },
})
