// Browsers start no worker from disk, and the site's search runs in one. There, run its script in a hidden frame.
// Material's plugin `offline` would load such a script from the network; mkdocs.yml names this one in its place.
if (location.protocol === "file:") {
  const importScripts = (...urls) =>
    urls.reduce(
      (before, url) =>
        before.then(
          () =>
            new Promise((resolve) => {
              const script = document.createElement("script")
              script.src = url
              script.onload = resolve
              document.body.append(script)
            })
        ),
      Promise.resolve()
    )

  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.window = frame.contentWindow
      this.window.document.write(
        `<body><script>postMessage = (data) => parent.postMessage(data, "*"); importScripts = ${importScripts}</script>` +
          `<script src="${url}"></script></body>`
      )
      this.window.document.close()
      this.loaded = new Promise((resolve) => (this.window.onload = resolve))
      addEventListener("message", ({ source, data }) => {
        if (source === this.window) this.dispatchEvent(new MessageEvent("message", { data }))
      })
    }

    postMessage(data) {
      this.loaded.then(() => this.window.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
