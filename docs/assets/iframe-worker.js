/* Search runs in a worker, and browsers start none for pages of a folder (file:). There a hidden frame stands in for it. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html><title>search</title>";
      this.frame.addEventListener("load", () => this.start(String(address)), { once: true });
      document.documentElement.append(this.frame);
    }
    start(address) {
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      script.addEventListener("load", () => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
      inside.document.head.append(script);
    }
    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
