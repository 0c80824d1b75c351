// Search in pages that are opened as files (build/site/index.html): browsers start no workers there, so a hidden frame
// does the work. Of mkdocs-material's plugin `offline`, which would fetch the like of it from elsewhere.
(() => {
  if (location.protocol !== "file:") return;
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      this.frame = frame;
      this.ready = new Promise((done) => { script.onload = done; });
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() { this.frame.remove(); }
  }
  window.IFrameWorker = window.Worker = IFrameWorker;
})();
