// Search on pages that were opened from files. Browsers start no workers there, so the search runs in a hidden frame,
// which takes the worker's place: Material's search finds it by the name IFrameWorker.
"use strict";
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      const page = inner.document;
      this.inner = inner;
      this.ready = new Promise((done, failed) => {
        // What the script expects of the place where it runs.
        inner.postMessage = (data) => this.tell(data);
        inner.importScripts = (...urls) =>
          urls.reduce((before, each) => before.then(() => load(page, each)), Promise.resolve());
        load(page, new URL(url, location.href)).then(done, failed);
      });
    }

    // A message of the worker to the page.
    tell(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    // A message of the page to the worker.
    postMessage(data) {
      this.ready.then(() => {
        const event = new this.inner.MessageEvent("message", { data });
        this.inner.dispatchEvent(event);
      });
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };

  const load = (page, url) =>
    new Promise((done, failed) => {
      const script = page.createElement("script");
      script.src = url;
      script.onload = done;
      script.onerror = failed;
      page.body.append(script);
    });

  window.Worker = window.IFrameWorker;
}
